package scene

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// process is a server in a process of its own.
type process struct {
	command *exec.Cmd
	output  bytes.Buffer // complete when it has exited
	exited  chan struct{}
}

// start runs a command and waits until it listens on an address. The folder is its home.
func start(ctx context.Context, dir, addr string, env []string, name string, args ...string) (*process, error) {
	p := &process{command: exec.Command(name, args...), exited: make(chan struct{})}
	p.command.Dir = dir
	p.command.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "XDG_DATA_HOME=" + dir}, env...)
	p.command.Stdout, p.command.Stderr = &p.output, &p.output
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.command.Wait() // an error here is how it ends when stopped
		close(p.exited)
	}()
	if err := p.listens(ctx, addr); err != nil {
		p.stop(syscall.SIGKILL)
		return nil, fmt.Errorf("starting %s: %w\n%s", filepath.Base(name), err, p.output.Bytes())
	}
	return p, nil
}

// listens waits until an address accepts a connection, for at most 20 seconds.
func (p *process) listens(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.exited:
			return errors.New("it exited")
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// stop sends a signal and waits until the process has exited. It is killed after 10 seconds.
func (p *process) stop(signal os.Signal) {
	_ = p.command.Process.Signal(signal) // it may have exited already
	select {
	case <-p.exited:
	case <-time.After(10 * time.Second):
		_ = p.command.Process.Kill() // it ignores the signal
		<-p.exited
	}
}

// freeAddr returns a loopback address that nothing listens on.
func freeAddr() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
