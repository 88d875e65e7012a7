package scene

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build builds this repository's Caddy in a folder and returns its path. CADDY_BINARY names a Caddy
// that is used instead. The working directory must be deploy, as in tests and with go -C deploy.
func Build(ctx context.Context, dir string) (string, error) {
	if path := os.Getenv("CADDY_BINARY"); path != "" {
		return filepath.Abs(path)
	}
	path := filepath.Join(dir, "caddy")
	// The Makefile's flags, so that both use the same build cache.
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-tags", "nobadger,nomysql,nopgx", "-o", path, "./cmd/caddy")
	build.Dir = ".."
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building Caddy: %w\n%s", err, output)
	}
	return path, nil
}
