package deploy

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/deploy/scene"
)

// buildDir is where the Caddy under test is built, once for all tests.
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
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder: no harm if it stays
	return m.Run()
}

var built = sync.OnceValues(func() (string, error) { return scene.Build(context.Background(), buildDir) })

func binary(t *testing.T) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var (
	runbookCommand = regexp.MustCompile(`"caddy redis-ratelimit ([^"]+)"`)
	commandFlag    = regexp.MustCompile(`--[a-z-]+`)
)

func TestRunbooks_name_commands_that_exist(t *testing.T) {
	said := map[string]string{} // what each command says of itself
	for _, alert := range loadRules(t).alerts {
		for _, found := range runbookCommand.FindAllStringSubmatch(alert.Annotations["runbook"], -1) {
			name, _, _ := strings.Cut(found[1], " ")
			if said[name] == "" {
				said[name] = help(t, name)
			}
			for _, flag := range commandFlag.FindAllString(found[1], -1) {
				if !strings.Contains(said[name], flag) {
					t.Errorf("%s: %s has no flag %s", alert.Alert, name, flag)
				}
			}
		}
	}
	if len(said) == 0 {
		t.Error("no runbook names a command")
	}
}

// help is what a command says of itself. Caddy says something else of one that it does not have.
func help(t *testing.T, name string) string {
	t.Helper()
	text, err := exec.Command(binary(t), "redis-ratelimit", name, "--help").CombinedOutput()
	if err != nil || !strings.Contains(string(text), "Usage:\n  caddy redis-ratelimit "+name) {
		t.Errorf("there is no command %s: %v\n%s", name, err, text)
	}
	return string(text)
}
