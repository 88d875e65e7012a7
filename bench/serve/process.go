// Package serve starts and stops the measured servers, on free loopback ports.
package serve

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a server in a process of its own.
type Process struct {
	Name string
	Addr string // host:port

	command *exec.Cmd
	output  bytes.Buffer
	exited  chan struct{}
}

// readyWithin bounds the time until a server listens. Under callgrind Caddy needs 15 s and more.
const readyWithin = 2 * time.Minute

// start runs a command and waits until it listens on an address. The directory is its working directory
// and its home. The process is killed when the context ends.
func start(ctx context.Context, name, addr, dir string, env []string, command string, args ...string) (*Process, error) {
	p := &Process{Name: name, Addr: addr, exited: make(chan struct{})}
	p.command = exec.CommandContext(ctx, command, args...)
	p.command.Dir = dir
	p.command.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir)
	p.command.Env = append(p.command.Env, env...)
	p.command.Stdout, p.command.Stderr = &p.output, &p.output
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		_ = p.command.Wait() // an error here is how it ends when stopped
		close(p.exited)
	}()
	if err := p.waitReady(ctx); err != nil {
		p.Stop()
		return nil, fmt.Errorf("starting %s: %w\n%s", name, err, p.output.Bytes())
	}
	return p, nil
}

func (p *Process) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for {
		conn, err := net.DialTimeout("tcp", p.Addr, time.Second)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.exited:
			return errors.New("it exited")
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop kills the process and waits until it has exited. Its data is not needed.
func (p *Process) Stop() {
	_ = p.command.Process.Kill() // it may have exited already
	<-p.exited
}

// CPU returns the processor time of the process so far, 0 where there is no such clock. Other than the
// times in /proc, which are hundredths of a second, it is exact to the nanosecond.
func (p *Process) CPU() time.Duration {
	const scheduled = 2 // CPUCLOCK_SCHED of Linux: all threads, those that have ended included
	clock := int32(^p.command.Process.Pid)<<3 | scheduled
	var spent unix.Timespec
	if err := unix.ClockGettime(clock, &spent); err != nil {
		return 0
	}
	return time.Duration(spent.Nano())
}

// Resident returns the resident memory of the process in bytes on Linux, 0 elsewhere.
func (p *Process) Resident() int64 {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.command.Process.Pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(statm))
	const resident = 1
	if len(fields) <= resident {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[resident], 10, 64) // always digits
	return pages * int64(os.Getpagesize())
}

// freeAddr returns a loopback address that nothing listens on, and its port.
func freeAddr() (addr, port string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	addr = listener.Addr().String()
	_, port, _ = net.SplitHostPort(addr) // it is one
	return addr, port, listener.Close()
}

// Redis starts an empty Redis that writes nothing to disk.
func Redis(ctx context.Context, dir string) (*Process, error) {
	addr, port, err := freeAddr()
	if err != nil {
		return nil, err
	}
	command := redisCommand(port)
	return start(ctx, "redis-server", addr, dir, nil, command[0], command[1:]...)
}

// isOwn reports whether the Redis that answers at the address is this process: two servers may have been given one free
// port, of which one ends.
func (p *Process) isOwn() bool {
	conn, err := net.DialTimeout("tcp", p.Addr, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close() //nolint:errcheck // it was only asked
	if err := conn.SetDeadline(time.Now().Add(readyWithin)); err != nil {
		return false
	}
	if _, err := conn.Write([]byte("INFO server\r\n")); err != nil {
		return false
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if id, found := strings.CutPrefix(lines.Text(), "process_id:"); found {
			return id == strconv.Itoa(p.command.Process.Pid)
		}
	}
	return false
}

// redisCommand returns the command of a Redis that writes nothing to disk.
func redisCommand(port string) []string {
	return []string{"redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"}
}

// Build builds a package's binary, in the module of that directory. Its error holds the compiler's output.
func Build(ctx context.Context, module, pkg, binary string, flags ...string) error {
	args := append([]string{"-C", module, "build", "-o", binary}, flags...)
	output, err := exec.CommandContext(ctx, "go", append(args, pkg)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, output)
	}
	return nil
}
