package frameworks

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Running is a program that runs.
type Running struct {
	Version string
	Address string // that it listens on

	command *exec.Cmd
	gone    chan struct{} // closed when the program has ended
	errors  bytes.Buffer
}

// startWithin bounds the start of a program: those of Java compile their code meanwhile.
const startWithin = time.Minute

// Start starts a program on a free port, which is compiled if it has to be.
func (w *Workshop) Start(ctx context.Context, p *Program) (*Running, error) {
	if err := w.compile(ctx, p); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Running{Address: listener.Addr().String(), gone: make(chan struct{})}
	_, port, _ := net.SplitHostPort(r.Address)
	if err := listener.Close(); err != nil {
		return nil, err
	}
	var words []string
	for _, word := range p.Command {
		words = append(words, strings.ReplaceAll(word, "{port}", port))
	}
	r.command = w.command(ctx, p, words)
	r.command.Stderr = &r.errors
	output, err := r.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.command.Start(); err != nil {
		return nil, err
	}
	first := make(chan string, 1)
	go func() {
		lines := bufio.NewReader(output)
		line, _ := lines.ReadString('\n') // without one the program ends
		first <- strings.TrimSpace(line)
		_, _ = io.Copy(io.Discard, lines)
		_ = r.command.Wait() // it is killed
		close(r.gone)
	}()
	if len(p.Version) == 0 {
		select {
		case r.Version = <-first:
		case <-time.After(startWithin):
		}
	} else {
		printed, err := w.command(ctx, p, p.Version).Output()
		if err != nil {
			return nil, err
		}
		r.Version = strings.TrimSpace(string(printed))
	}
	err = r.awaitPort()
	return r, err
}

// awaitPort waits until the program takes connections.
func (r *Running) awaitPort() error {
	for begin := time.Now(); time.Since(begin) < startWithin; {
		if connection, err := net.Dial("tcp", r.Address); err == nil {
			return connection.Close()
		}
		select {
		case <-r.gone:
			return fmt.Errorf("the program has ended: %s", lastLines(r.errors.String()))
		case <-time.After(20 * time.Millisecond):
		}
	}
	r.Stop()
	return fmt.Errorf("the program takes no connection: %s", lastLines(r.errors.String()))
}

func lastLines(text string) string {
	const most = 600
	return text[max(0, len(text)-most):]
}

// Stop ends the program.
func (r *Running) Stop() {
	_ = r.command.Cancel() // it may have ended
	<-r.gone
}

// command returns a command of a program's release, or of this machine.
func (w *Workshop) command(ctx context.Context, p *Program, words []string) *exec.Cmd {
	env := []string{"LANG=C.UTF-8", "PERL_BADLANG=0", "PYTHONDONTWRITEBYTECODE=1", "HOME=/", "PATH=/usr/local/bin:/usr/bin:/usr/sbin"}
	if p.Suite == "" {
		env = append(env, "PATH="+os.Getenv("PATH"), "MODULES="+filepath.Join(w.Built, "node", "node_modules"))
		for i, word := range words {
			words[i] = strings.ReplaceAll(word, "{built}", w.Built)
		}
	} else {
		env = append(env, "MODULES=/srv/built/node/node_modules")
		words = append([]string{filepath.Join(w.Parsers, "frameworks", "within"), filepath.Join(w.Built, p.Suite), w.Parsers, w.Built}, words...)
	}
	command := exec.CommandContext(ctx, words[0], words[1:]...)
	command.Dir, command.Env = w.Parsers, env
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	return command
}

// OrEnded returns an error that says that the program has ended, if it has, and else the error that it is given.
func (r *Running) OrEnded(err error) error {
	select {
	case <-r.gone:
		return fmt.Errorf("the program has ended: %s", lastLines(r.errors.String()))
	case <-time.After(50 * time.Millisecond):
		return err
	}
}
