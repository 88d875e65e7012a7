package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// running is a server that runs.
type running struct {
	version string
	address string
	command *exec.Cmd
	gone    chan struct{} // closed when the program has ended
	errors  bytes.Buffer
}

// startWithin bounds the start of a server: those of Java compile their code meanwhile.
const startWithin = time.Minute

// start starts a server on a free port.
func (h *harness) start(ctx context.Context, s *server) (*running, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &running{address: listener.Addr().String(), gone: make(chan struct{})}
	_, port, _ := net.SplitHostPort(r.address)
	if err := listener.Close(); err != nil {
		return nil, err
	}
	var words []string
	for _, word := range s.command {
		words = append(words, strings.ReplaceAll(word, "{port}", port))
	}
	r.command = h.prepare(ctx, s, words)
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
	if len(s.version) == 0 {
		select {
		case r.version = <-first:
		case <-time.After(startWithin):
		}
	} else {
		printed, err := h.prepare(ctx, s, s.version).Output()
		if err != nil {
			return nil, err
		}
		r.version = strings.TrimSpace(string(printed))
	}
	err = r.awaitPort()
	return r, err
}

// awaitPort waits until the server takes connections.
func (r *running) awaitPort() error {
	for begin := time.Now(); time.Since(begin) < startWithin; {
		if connection, err := net.Dial("tcp", r.address); err == nil {
			return connection.Close()
		}
		select {
		case <-r.gone:
			return fmt.Errorf("the program has ended: %s", lastLines(r.errors.String()))
		case <-time.After(20 * time.Millisecond):
		}
	}
	r.stop()
	return fmt.Errorf("the program takes no connection: %s", lastLines(r.errors.String()))
}

func lastLines(text string) string {
	const most = 600
	return text[max(0, len(text)-most):]
}

// stop ends the server.
func (r *running) stop() {
	_ = r.command.Cancel() // it may have ended
	<-r.gone
}

// prepare returns a command of a server's release, or of this machine.
func (h *harness) prepare(ctx context.Context, s *server, words []string) *exec.Cmd {
	env := []string{"LANG=C.UTF-8", "PERL_BADLANG=0", "PYTHONDONTWRITEBYTECODE=1", "HOME=/", "PATH=/usr/local/bin:/usr/bin:/usr/sbin"}
	if s.suite == "" {
		env = append(env, "PATH="+os.Getenv("PATH"), "MODULES="+filepath.Join(h.built, "node", "node_modules"))
		for i, word := range words {
			words[i] = strings.ReplaceAll(word, "{built}", h.built)
		}
	} else {
		env = append(env, "MODULES=/srv/built/node/node_modules")
		words = append([]string{filepath.Join(h.parsers, "within"), filepath.Join(h.built, s.suite), h.parsers, h.built}, words...)
	}
	command := exec.CommandContext(ctx, words[0], words[1:]...)
	command.Dir, command.Env = h.parsers, env
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	return command
}

// askWithin bounds one request.
const askWithin = 20 * time.Second

// ask sends a sample to a way of reading.
func (r *running) ask(s *sample, way, asked string) (answer, error) {
	connection, err := net.Dial("tcp", r.address)
	if err != nil {
		return answer{}, r.orEnded(err)
	}
	defer func() { _ = connection.Close() }()             // nothing is left to be sent
	_ = connection.SetDeadline(time.Now().Add(askWithin)) // a TCP connection has deadlines
	sent := make(chan struct{})
	go func() {
		_, _ = connection.Write(request(s, way, asked)) // a server may refuse before it has read all
		close(sent)
	}()
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		return r.unanswered(err)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
	_ = response.Body.Close() // it was read
	if err != nil {
		return r.unanswered(err)
	}
	return parseAnswer(response.StatusCode, string(body))
}

// unanswered returns a refusal for a connection that the server has closed without an answer. A server that has ended, or
// takes too long, is an error: the corpus has nothing that should lead to that.
func (r *running) unanswered(err error) (answer, error) {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return answer{}, fmt.Errorf("no answer within %v", askWithin)
	}
	if err := r.orEnded(nil); err != nil {
		return answer{}, err
	}
	return answer{answerRefused, "connection closed"}, nil
}

// orEnded returns an error that says that the program has ended, if it has.
func (r *running) orEnded(err error) error {
	select {
	case <-r.gone:
		return fmt.Errorf("the program has ended: %s", lastLines(r.errors.String()))
	case <-time.After(50 * time.Millisecond):
		return err
	}
}

// request returns a request as it is sent.
func request(s *sample, way, asked string) []byte {
	var b bytes.Buffer
	b.WriteString("POST /" + way)
	if s.query != "" {
		b.WriteString("?" + s.query)
	}
	b.WriteString(" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Asked: " + asked + "\r\n")
	for _, t := range s.types {
		b.WriteString("Content-Type: " + t + "\r\n")
	}
	b.WriteString("Content-Length: " + strconv.Itoa(len(s.body)) + "\r\n\r\n" + s.body)
	return b.Bytes()
}
