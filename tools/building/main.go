// Command building runs go build with its arguments, of which the last is the package, and says on stderr how far go build is:
//
//	building -o caddy ./cmd/caddy
//
// On a terminal one line shows it, and is erased at the end; elsewhere a line comes at each quarter. What go build prints
// besides, such as errors of the compiler, is printed whole. Where nothing is to be built nothing is printed. The exit code
// is that of go build, which an interrupt stops.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 2 || strings.HasPrefix(os.Args[len(os.Args)-1], "-") {
		fmt.Fprintln(os.Stderr, "use: building [<flags of go build>] <package>")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := build(ctx, os.Args[1:], &screen{out: os.Stderr, terminal: isTerminal(os.Stderr)})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "building:", err)
	}
	os.Exit(code)
}

// isTerminal reports whether a file is a terminal on which a line can be written again.
func isTerminal(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// build runs go build and returns its exit code.
func build(ctx context.Context, args []string, s *screen) (code int, err error) {
	command := exec.CommandContext(ctx, "go", append([]string{"build", "-v"}, args...)...) //nolint:gosec // that is what it is for
	command.Stdout, command.Cancel = os.Stdout, func() error { return command.Process.Signal(os.Interrupt) }
	output, err := command.StderrPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		return 1, err
	}
	p := &progress{screen: s, args: args, began: time.Now(), packages: map[string]bool{}}
	p.follow(lines(output))
	err = command.Wait()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return max(exit.ExitCode(), 1), nil // -1: by a signal
	case err != nil:
		return 1, err
	}
	p.end()
	return 0, nil
}

// lines returns the lines of a text as they come.
func lines(text io.Reader) <-chan string {
	found := make(chan string)
	go func() {
		defer close(found)
		r := bufio.NewReader(text)
		for {
			line, err := r.ReadString('\n')
			if line != "" {
				found <- strings.TrimSuffix(line, "\n")
			}
			if err != nil {
				return
			}
		}
	}()
	return found
}

// progress is how far go build is.
type progress struct {
	screen *screen
	args   []string // of go build
	began  time.Time

	downloaded, modules int // modules; those of go.mod, of which the package may need fewer

	packages map[string]bool // those to compile, as far as they are known
	begun    int             // packages of which that has begun
	due      <-chan []string // the answer to which are to compile, once that was asked
	known    bool            // that was answered
	told     int             // quarters that were told where there is no terminal
	doing    string
}

// follow reads what go build prints, until its end.
func (p *progress) follow(output <-chan string) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case line, more := <-output:
			if !more {
				p.screen.erase()
				return
			}
			p.read(line)
		case due := <-p.due:
			p.due, p.known = nil, true
			for _, name := range due {
				p.packages[name] = true
			}
		case <-tick.C:
			p.show()
		}
	}
}

// downloading begins the line of go build for a module that it fetches.
const downloading = "go: downloading "

// read reads a line of go build: a module, a package that is compiled now, or something else, which is printed.
func (p *progress) read(line string) {
	module, isModule := strings.CutPrefix(line, downloading)
	switch {
	case isModule:
		if p.downloaded == 0 {
			p.modules = modules()
			p.screen.note(fmt.Sprintf("downloading modules, at most %d", p.modules))
		}
		p.downloaded++
		p.doing = fmt.Sprintf("downloading %d of at most %d modules: %s", p.downloaded, p.modules, module)
	case isPackage(line):
		if p.begun == 0 {
			p.due = due(p.args)
			p.screen.note("compiling")
		}
		p.packages[line] = true
		p.begun++
		p.doing = "compiling " + line
		if p.known {
			p.doing = fmt.Sprintf("compiled %d of %d packages, compiling %s", p.begun-1, len(p.packages), line)
			p.tellQuarter()
		}
	default:
		p.screen.print(line)
		return
	}
	p.show()
}

// isPackage reports whether a line can be the path of a package.
func isPackage(line string) bool {
	return line != "" && !strings.ContainsAny(line, " \t:#\"'()")
}

// tellQuarter says where there is no terminal that another quarter of the packages is compiled.
func (p *progress) tellQuarter() {
	if quarter := 4 * p.begun / len(p.packages); quarter > p.told && quarter < 4 {
		p.told = quarter
		p.screen.note(fmt.Sprintf("compiled %d of %d packages", p.begun-1, len(p.packages)))
	}
}

// show shows on a terminal what is done, and for how long already. go build says nothing of what it links.
func (p *progress) show() {
	p.screen.status(fmt.Sprintf("%s  %s", p.took(), cmp.Or(p.doing, "looking for what has changed, and linking")))
}

func (p *progress) took() time.Duration { return time.Since(p.began).Round(time.Second) }

// end says how long it took, if something was built.
func (p *progress) end() {
	if p.doing != "" {
		p.screen.print(fmt.Sprintf("built %s in %s", p.args[len(p.args)-1], p.took()))
	}
}

// modules returns how many modules go.mod lists; 0 if that cannot be found out.
func modules() int {
	var file struct{ Require []struct{} }
	text, err := exec.Command("go", "mod", "edit", "-json").Output()
	if err != nil || json.Unmarshal(text, &file) != nil {
		return 0
	}
	return len(file.Require)
}

// due asks go build, beside the one that builds, which packages the caches lack. Without an answer it sends nothing.
func due(args []string) <-chan []string {
	names := make(chan []string, 1)
	go func() {
		command := exec.Command("go", append([]string{"build", "-n"}, args...)...) //nolint:gosec // that is what it is for
		commands, err := command.CombinedOutput()
		if err != nil {
			return
		}
		var found []string
		for line := range strings.Lines(string(commands)) { // each package's commands stand below its name
			if name, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "# "); ok && isPackage(name) {
				found = append(found, name)
			}
		}
		names <- found
	}()
	return names
}

// screen is where progress is shown.
type screen struct {
	out      io.Writer
	terminal bool
	shown    int // the length of the line that stands on the terminal
}

// width is how much of a terminal a line takes: one that wraps could not be written again.
const width = 78

// status replaces the line that stands on the terminal.
func (s *screen) status(text string) {
	if !s.terminal {
		return
	}
	text = text[:min(len(text), width)]
	s.write("\r" + text + strings.Repeat(" ", max(0, s.shown-len(text))))
	s.shown = len(text)
}

// note prints a line where there is no terminal.
func (s *screen) note(text string) {
	if !s.terminal {
		s.write(text + "\n")
	}
}

// print prints a line that stays.
func (s *screen) print(text string) {
	s.erase()
	s.write(text + "\n")
}

// erase leaves nothing of the line that stands on the terminal.
func (s *screen) erase() {
	if s.shown > 0 {
		s.write("\r" + strings.Repeat(" ", s.shown) + "\r")
		s.shown = 0
	}
}

func (s *screen) write(text string) { _, _ = io.WriteString(s.out, text) } // a reader that has left misses progress alone
