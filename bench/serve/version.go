package serve

import (
	"context"
	"os/exec"
	"regexp"
)

// Unknown stands for what could not be found out.
const Unknown = "unknown"

// Found runs a command and returns what a pattern's last group matches in its output, such as a version.
func Found(ctx context.Context, pattern, name string, args ...string) string {
	output, _ := exec.CommandContext(ctx, name, args...).CombinedOutput()
	groups := regexp.MustCompile(pattern).FindSubmatch(output)
	if groups == nil {
		return Unknown
	}
	return string(groups[len(groups)-1])
}
