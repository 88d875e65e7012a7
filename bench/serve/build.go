package serve

import (
	"context"
	"fmt"
	"os/exec"
)

// Build builds a package's binary, in the module of that directory. Its error holds the compiler's output.
func Build(ctx context.Context, module, pkg, binary string, flags ...string) error {
	args := append([]string{"-C", module, "build", "-o", binary}, flags...)
	output, err := exec.CommandContext(ctx, "go", append(args, pkg)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, output)
	}
	return nil
}
