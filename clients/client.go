package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// client is a program or a library that is run against the limiter.
type client struct {
	name    string   // in the table
	program string   // words: programs in PATH, or files, also of the folder of what was built
	install string   // how to install the program: Debian's package, or words in brackets
	version []string // a command that prints the version; {built} is the folder of what was built

	limit   string // "2 3s" without one: requests of a window
	matcher string // of the limited requests; all without one
	options string // more lines of the limiter; "algorithm sliding_window_log" without any
	h2c     bool   // the backend is asked by HTTP/2

	files   func(r *run) error        // writes what the backend serves to r.served
	backend func(r *run) http.Handler // in place of files
	job     func(r *run) outcome

	within time.Duration // the job is ended then, if it still sleeps
	spared bool          // the client is never refused

	note string // what no answer can prevent, or what the client needs
}

// outcome is what a client made of a job.
type outcome struct {
	exit    int    // 0 is the client's claim of success
	data    string // in words: "3 of 5 files"
	whole   bool   // all of the data is there and right
	sleeps  bool   // it had to be ended
	refusal bool   // a refusal stands where data should
}

// run is a client at its job. Each has folders, a backend and a Caddy of its own.
type run struct {
	*client
	ctx     context.Context
	root    string   // the repository
	built   string   // folder of the programs, packages and SDKs that the runner has installed
	folder  string   // home and working directory of the client
	served  string   // folder that the backend serves
	url     string   // of the limited site, without a slash at the end
	direct  string   // of the backend
	arrived arrivals // what the backend has got
	output  bytes.Buffer
	err     error // the job could not be prepared
}

// host returns the address of the limited site.
func (r *run) host() string { return r.url[len("http://"):] }

// check remembers the first error of the preparations, which ends the run.
func (r *run) check(err error) {
	if r.err == nil && err != nil {
		r.err = err
	}
}

// write writes a file of the client's folder, and the folders above it.
func (r *run) write(name, text string) {
	r.check(writeFile(filepath.Join(r.folder, name), []byte(text)))
}

// serve writes a file that the backend serves.
func (r *run) serve(name, text string) {
	r.check(writeFile(filepath.Join(r.served, name), []byte(text)))
}

func writeFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

// command runs a program in the client's folder, keeps what it prints and returns its exit code. Arguments of the form
// NAME=value before the program are environment variables.
func (r *run) command(words ...string) (exit int) {
	command := r.prepare(words...)
	command.Stdout, command.Stderr = &r.output, &r.output
	err := command.Start()
	if err == nil && r.within > 0 {
		defer time.AfterFunc(r.within, func() { _ = command.Cancel() }).Stop() // it may have exited
	}
	if err == nil {
		err = command.Wait()
	}
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		r.check(err)
	}
	if command.ProcessState == nil {
		return -1
	}
	return command.ProcessState.ExitCode()
}

// must runs a program of the preparations, whose failure ends the run.
func (r *run) must(words ...string) (output string) {
	text, err := r.prepare(words...).CombinedOutput()
	if err != nil {
		r.check(fmt.Errorf("%v: %w\n%s", words, err, text))
	}
	return string(text)
}

var variable = regexp.MustCompile(`^[A-Z][A-Za-z_]*=`)

// prepare returns a command with a home of its own. Its children end with it.
func (r *run) prepare(words ...string) *exec.Cmd {
	env := []string{"PATH=" + r.built + ":" + os.Getenv("PATH"), "HOME=" + r.folder, "LANG=C.UTF-8", "TZ=UTC"}
	for name, folder := range map[string]string{"RUSTUP_HOME": ".rustup", "PYENV_ROOT": ".pyenv"} {
		if os.Getenv(name) == "" { // both look for their programs below HOME
			env = append(env, name+"="+filepath.Join(os.Getenv("HOME"), folder))
		} else {
			env = append(env, name+"="+os.Getenv(name))
		}
	}
	for variable.MatchString(words[0]) {
		env, words = append(env, words[0]), words[1:]
	}
	program := words[0]
	if path := filepath.Join(r.built, program); isFile(path) {
		program = path
	}
	command := exec.CommandContext(r.ctx, program, words[1:]...)
	command.Dir, command.Env = r.folder, env
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = 5 * time.Second
	return command
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}

// installed reports whether the client can be run.
func (c *client) installed(built string) bool {
	return !slices.ContainsFunc(strings.Fields(c.program), func(word string) bool {
		_, err := exec.LookPath(word)
		return err != nil && !isFile(word) && !isFile(filepath.Join(built, word))
	})
}

var versionNumber = regexp.MustCompile(`\d+\.\d+[0-9A-Za-z.~+-]*`)

// findVersion returns the first number with a dot that the version's command prints.
func (r *run) findVersion() string {
	if len(r.version) == 1 && versionNumber.MatchString(r.version[0]) {
		return r.version[0]
	}
	words := strings.Split(strings.ReplaceAll(strings.Join(r.version, "\n"), "{built}", r.built), "\n")
	text := r.must(words...)
	if line := regexp.MustCompile(`(?m)^\s+mod\s.*`).FindString(text); line != "" { // of go version -m
		text = line
	}
	if number := versionNumber.FindString(text); number != "" {
		return number
	}
	return r.must("dpkg-query", "-W", "-f", "${Version}", r.install) // Debian's lego does not know its own
}

// compare compares the files of a folder with those that are served, by their names without folders.
func (r *run) compare(folder string, exit int) (o outcome) {
	o.exit = exit
	got := map[string]string{}
	r.check(filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil //nolint:nilerr // a client that was refused may have made no folder
		}
		content, err := os.ReadFile(path)
		got[entry.Name()] = string(content)
		return err
	}))
	wanted, right := 0, 0
	r.check(filepath.WalkDir(r.served, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "index.html" {
			return err
		}
		content, err := os.ReadFile(path)
		wanted++
		switch text, there := got[entry.Name()]; {
		case there && text == string(content):
			right++
		case there && refusalText.MatchString(text):
			o.refusal = true
		}
		return err
	}))
	o.whole, o.data = right == wanted, fmt.Sprintf("%d of %d files", right, wanted)
	return o
}

// readAll returns the body of a request.
func readAll(q *http.Request) string {
	content, _ := io.ReadAll(q.Body) // a client that leaves early sends again
	return string(content)
}
