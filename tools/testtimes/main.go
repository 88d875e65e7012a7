// Command testtimes runs go test, prints what it prints, and notes how long each test took:
//
//	testtimes times.txt go test -race ./...
//
// A line of the file has the seconds, the package and the test, without sub-tests. Lines are added to the file, so that
// several commands may have one. The exit code is that of go test.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "use: testtimes <file> go test <arguments>")
		os.Exit(2)
	}
	code, err := run(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testtimes:", err)
		os.Exit(max(code, 1))
	}
	os.Exit(code)
}

// run runs go test and returns its exit code.
func run(file string, command []string) (code int, err error) {
	times, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // no secret is in it
	if err != nil {
		return 0, err
	}
	defer times.Close() //nolint:errcheck // each line was written at once
	args := append([]string{command[1], "-json"}, command[2:]...)
	test := exec.Command(command[0], args...) //nolint:gosec // that is what it is for
	test.Stderr = os.Stderr
	events, err := test.StdoutPipe()
	if err == nil {
		err = test.Start()
	}
	if err != nil {
		return 0, err
	}
	p := &printer{out: os.Stdout, builds: os.Stderr, times: times, packages: map[string]*output{}}
	failed := p.print(events)
	err = test.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0, errors.Join(failed, err)
	}
	if p.failed { // go test says so only where it prints no JSON
		fmt.Println("FAIL")
	}
	return max(exit.ExitCode(), 1), failed // also where a signal ended it
}

// event is one of go test -json, as go doc test2json has them.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// printer prints the events of tests as go test does without -json and -v: of packages that fail what was printed, and what
// tests that failed have logged.
type printer struct {
	out, builds, times io.Writer // builds: what does not compile

	packages map[string]*output
	failed   bool // a package
}

// output is what a package shows if it fails, and the lines that its tests have logged so far.
type output struct {
	shown strings.Builder
	last  strings.Builder // of the package itself
	logs  map[string]string
}

// print prints events until they end. What is none is printed as it is. It reads on although it cannot write, or go test
// would wait.
func (p *printer) print(events io.Reader) (err error) {
	reader := bufio.NewReader(events)
	for {
		line, end := reader.ReadString('\n')
		if line != "" {
			err = cmp.Or(err, p.printLine(line))
		}
		if end == io.EOF {
			return err
		}
		if end != nil {
			return cmp.Or(err, end)
		}
	}
}

func (p *printer) printLine(line string) error {
	var e event
	if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
		return p.write(line)
	}
	of := p.packages[e.Package]
	if of == nil {
		of = &output{logs: map[string]string{}}
		p.packages[e.Package] = of
	}
	ends := e.Action == "pass" || e.Action == "fail" || e.Action == "skip"
	switch {
	case e.Action == "build-output":
		_, err := io.WriteString(p.builds, e.Output)
		return err
	case e.Action == "output":
		of.add(&e)
	case ends && e.Test != "":
		return p.note(&e)
	case ends:
		delete(p.packages, e.Package)
		return p.end(of, e.Action == "fail")
	}
	return nil
}

// note adds a test's line to the times, unless it is a sub-test.
func (p *printer) note(e *event) error {
	if strings.Contains(e.Test, "/") {
		return nil
	}
	_, err := fmt.Fprintf(p.times, "%8.2f %s %s\n", e.Elapsed, e.Package, e.Test)
	return err
}

// end prints what a package shows.
func (p *printer) end(of *output, failed bool) error {
	if !failed {
		return p.write(strings.TrimPrefix(of.last.String(), "PASS\n"))
	}
	p.failed = true
	return p.write(of.shown.String())
}

func (p *printer) write(text string) error {
	_, err := io.WriteString(p.out, text)
	return err
}

// header begins the report of a test, or says with -v that it goes on.
var header = regexp.MustCompile(`^ *(?:--- (PASS|FAIL|SKIP): |=== (?:RUN|PAUSE|CONT|NAME) )`)

// add adds a line. A test's report is its header and what it has logged, which is four blanks further in. That of a
// sub-test is a part of its parent's. Any other line was printed by the tested code.
func (o *output) add(e *event) {
	found := header.FindStringSubmatch(e.Output)
	switch {
	case e.Test == "":
		o.last.WriteString(e.Output)
		o.shown.WriteString(e.Output)
	case found == nil && strings.HasPrefix(e.Output, "    "):
		o.logs[e.Test] += e.Output
	case found == nil:
		o.shown.WriteString(e.Output)
	case found[1] == "FAIL":
		report := strings.TrimLeft(e.Output, " ") + o.logs[e.Test]
		if parent := strings.LastIndexByte(e.Test, '/'); parent >= 0 {
			o.logs[e.Test[:parent]] += indented(report)
		} else {
			o.shown.WriteString(report)
		}
		delete(o.logs, e.Test)
	case found[1] != "":
		delete(o.logs, e.Test) // what has passed says nothing
	}
}

// indented is a text whose lines begin with four blanks.
func indented(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString("    " + line)
	}
	return out.String()
}
