package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain has the binary be the command where a test asks for it.
func TestMain(m *testing.M) {
	if os.Getenv("BE_BUILDING") == "1" {
		main()
		return
	}
	os.Exit(m.Run())
}

// inModule writes a module of three packages, of which the first imports the others, and makes its folder the current one.
func inModule(t *testing.T, text string) {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":         "module example\n\ngo 1.24\n",
		"main.go":        "package main\nimport (\"example/one\"; \"example/two\")\nfunc main() { one.One(); two.Two() }\n",
		"one/one.go":     "package one\n// " + folder + "\nfunc One() {}\n", // which no cache has
		"two/two.go":     text,
		"sleep/sleep.sh": "#!/bin/sh\ncase \"$*\" in *-V=*) exec \"$@\";; esac\n: >started\nexec sleep 60\n",
	} {
		path := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o700)); err != nil { //nolint:gosec // a module of the test
			t.Fatal(err)
		}
	}
	t.Chdir(folder)
}

const two = "package two\nimport _ \"errors\"\nfunc Two() {}\n"

func built(t *testing.T, terminal bool) (text string, code int) {
	t.Helper()
	var out bytes.Buffer
	code, err := build(context.Background(), []string{"-o", "example.exe", "."}, &screen{out: &out, terminal: terminal})
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`\d+s`).ReplaceAllString(out.String(), "0s"), code
}

// TestBuild_in_a_pipe prints few lines, and for what is built already no line.
func TestBuild_in_a_pipe(t *testing.T) {
	inModule(t, two)
	text, code := built(t, false)
	if code != 0 || !strings.HasPrefix(text, "compiling\n") || !strings.HasSuffix(text, "\nbuilt . in 0s\n") || strings.Count(text, "\n") > 5 {
		t.Errorf("got %d and %q", code, text)
	}
	if _, err := os.Stat("example.exe"); err != nil {
		t.Error(err)
	}
	if text, code = built(t, false); code != 0 || text != "" {
		t.Errorf("built already: got %d and %q", code, text)
	}
}

// TestBuild_on_a_terminal writes one line again, and leaves nothing of it.
func TestBuild_on_a_terminal(t *testing.T) {
	inModule(t, two)
	text, code := built(t, true)
	lines := strings.Split(text, "\r")
	last := len(lines) - 1
	if code != 0 || lines[last] != "built . in 0s\n" || strings.TrimSpace(lines[last-1]) != "" || strings.Count(text, "\n") != 1 {
		t.Errorf("got %d and %q", code, text)
	}
	if !strings.Contains(text, "compiling example/one") {
		t.Errorf("got %q, without the packages", text)
	}
}

// TestBuild_shows_errors prints what go build prints of a package that does not compile, and has its exit code.
func TestBuild_shows_errors(t *testing.T) {
	inModule(t, "package two\nfunc Two() {\n\tnothing()\n\tx := 1\n}\n")
	plain := exec.Command("go", "build", "-o", "example.exe", ".")
	want, _ := plain.CombinedOutput()
	text, code := built(t, false)
	if code != plain.ProcessState.ExitCode() || !strings.HasSuffix(text, string(want)) || !strings.Contains(text, "undefined: nothing") {
		t.Errorf("got %d and %q; want %q", code, text, want)
	}
	if text, _ = built(t, true); !strings.Contains(text, "\r"+string(want)) {
		t.Errorf("on a terminal: got %q; want %q", text, want)
	}
	code, err := build(context.Background(), []string{"./none"}, &screen{out: new(bytes.Buffer)})
	if code == 0 || err != nil {
		t.Errorf("a package that is not there: got %d, %v", code, err)
	}
}

// TestBuild_ends_by_an_interrupt interrupts a compiler that sleeps, as a terminal does.
func TestBuild_ends_by_an_interrupt(t *testing.T) {
	inModule(t, two)
	command := exec.Command(os.Args[0], "-toolexec", "sleep/sleep.sh", "-o", "example.exe", ".") //nolint:gosec // this test
	command.Env = append(os.Environ(), "BE_BUILDING=1")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) { //nolint:forbidigo // the compiler tells by a file
		if started, _ := filepath.Glob("started"); len(started) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the compiler did not start")
		}
	}
	began := time.Now()
	if err := syscall.Kill(-command.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait()
	if code, took := command.ProcessState.ExitCode(), time.Since(began); code < 1 || took > 30*time.Second {
		t.Errorf("got exit code %d after %s", code, took)
	}
}
