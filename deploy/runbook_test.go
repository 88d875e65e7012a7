package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// built builds this repository's Caddy once for all tests. CADDY_BINARY names a Caddy that is used instead.
var built = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("CADDY_BINARY"); path != "" {
		return filepath.Abs(path)
	}
	path := filepath.Join(buildDir, "caddy")
	// The Makefile's flags, so that both use the same build cache.
	build := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-tags", "nobadger,nomysql,nopgx", "-o", path, "./cmd/caddy")
	build.Dir, build.Env = "..", append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building Caddy: %w\n%s", err, output)
	}
	return path, nil
})

// buildDir is the folder of the built Caddy.
var buildDir string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "deploy")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	buildDir = dir
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder may stay
	return m.Run()
}

func binary(t *testing.T) string {
	t.Helper()
	path, err := built()
	must(t, err)
	return path
}

var (
	runbookCommand = regexp.MustCompile(`"caddy redis-ratelimit ([^"]+)"`)
	commandFlag    = regexp.MustCompile(`--[a-z-]+`)
)

func TestRunbooks_commands(t *testing.T) {
	helpOf := map[string]string{} // the help of each command
	for _, alert := range loadRules(t).alerts {
		for _, found := range runbookCommand.FindAllStringSubmatch(alert.Annotations["runbook"], -1) {
			name, _, _ := strings.Cut(found[1], " ")
			if helpOf[name] == "" {
				helpOf[name] = help(t, name)
			}
			for _, flag := range commandFlag.FindAllString(found[1], -1) {
				if !strings.Contains(helpOf[name], flag) {
					t.Errorf("%s: %s has no flag %s", alert.Alert, name, flag)
				}
			}
		}
	}
	if len(helpOf) == 0 {
		t.Error("no runbook names a command")
	}
}

// help returns the help of a command. For an unknown one Caddy prints another text.
func help(t *testing.T, name string) string {
	t.Helper()
	text, err := exec.Command(binary(t), "redis-ratelimit", name, "--help").CombinedOutput()
	if err != nil || !strings.Contains(string(text), "Usage:\n  caddy redis-ratelimit "+name) {
		t.Errorf("there is no command %s: %v\n%s", name, err, text)
	}
	return string(text)
}
