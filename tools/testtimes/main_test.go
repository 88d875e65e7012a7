package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The files of a module whose packages pass, skip, fail, panic, do not compile, and have no tests.
var files = map[string]string{
	"go.mod":           "module example\n\ngo 1.24\n",
	"none/none.go":     "package none\n",
	"pass/a_test.go":   "package pass\nimport \"testing\"\nfunc TestA(t *testing.T) { t.Log(\"quiet\"); t.Run(\"b\", func(t *testing.T) {}) }\nfunc TestSkips(t *testing.T) { t.Skip(\"no\") }\n",
	"fail/a_test.go":   "package fail\nimport (\"fmt\"; \"testing\")\nfunc TestA(t *testing.T) { t.Run(\"b\", func(t *testing.T) { t.Error(\"loud\") }); t.Run(\"c\", func(t *testing.T) { t.Log(\"quiet\") }) }\nfunc TestB(t *testing.T) { t.Parallel(); fmt.Println(\"said\") }\n",
	"panics/a_test.go": "package panics\nimport \"testing\"\nfunc TestA(t *testing.T) { panic(\"at the disco\") }\n",
	"broken/a_test.go": "package broken\nimport \"testing\"\nfunc TestA(t *testing.T) { nothing() }\n",
}

// TestMain has the binary be the command where a test asks for it.
func TestMain(m *testing.M) {
	if os.Getenv("BE_TESTTIMES") == "1" {
		main()
		return
	}
	os.Exit(m.Run())
}

// ran is what a command has printed, with its exit code.
type ran struct {
	out, err string
	code     int
}

func runIn(t *testing.T, folder string, env []string, name string, args ...string) ran {
	t.Helper()
	var out, failure bytes.Buffer
	c := exec.Command(name, args...) //nolint:gosec // the test names it
	c.Dir, c.Env, c.Stdout, c.Stderr = folder, append(os.Environ(), env...), &out, &failure
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return ran{unsteady.ReplaceAllString(out.String(), "*"), unsteady.ReplaceAllString(failure.String(), "*"), c.ProcessState.ExitCode()}
}

// unsteady is what differs between two runs: times, addresses and numbers of goroutines.
var unsteady = regexp.MustCompile(`\d+\.\d+s|0x[0-9a-f]+|\{0x[^}]*\}|goroutine \d+|\(cached\)|\+0x[0-9a-f]+`)

// TestRun_prints_what_go_test_prints compares outputs and exit codes, package by package.
func TestRun_prints_what_go_test_prints(t *testing.T) {
	folder := t.TempDir()
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil { //nolint:gosec // a module of the test
			t.Fatal(err)
		}
	}
	times := filepath.Join(folder, "times.txt")
	for _, pattern := range []string{"./none", "./pass", "./fail", "./panics", "./broken", "./absent", "./pass ./fail ./broken"} {
		packages := append([]string{"test", "-p=1", "-count=1"}, strings.Fields(pattern)...)
		want := runIn(t, folder, nil, "go", packages...)
		got := runIn(t, folder, []string{"BE_TESTTIMES=1"}, os.Args[0], append([]string{times, "go"}, packages...)...)
		if got != want {
			t.Errorf("%s: code %d, want %d, and printed\n%s\n%s\nwant\n%s\n%s", pattern, got.code, want.code, got.out, got.err, want.out, want.err)
		}
	}
	noted, err := os.ReadFile(times)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"example/pass TestA\n", "example/fail TestA\n", "example/fail TestB\n", "example/panics TestA\n"} {
		if !strings.Contains(string(noted), " "+line) {
			t.Errorf("no time of %q in\n%s", line, noted)
		}
	}
	if strings.Contains(string(noted), "/b") {
		t.Errorf("the times have sub-tests:\n%s", noted)
	}
}
