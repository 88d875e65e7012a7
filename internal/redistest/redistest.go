// Package redistest starts real Redis servers for tests, on free loopback ports. They run the program that the
// environment variable REDIS_SERVER names, by default redis-server. It may be one of Valkey.
package redistest

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// program is the server's program, a name or a path. It is also a sentinel's.
var program = cmp.Or(os.Getenv("REDIS_SERVER"), "redis-server")

// Server is a running redis-server.
type Server struct {
	Addr string // 127.0.0.1:port
	Dir  string // its working directory
	DB   int    // the test's database

	shared     bool      // with other tests
	belowShell bool      // which stops it when its input ends
	alive      io.Closer // that input, open as long as this process lives
	args       []string
	env        []string // in addition to this process's
	command    *exec.Cmd
	output     *output
	exited     chan struct{}
}

// Start starts a server that stops at the end of the test. The arguments are options of redis-server. Persistence
// is off.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return startServer(t, nil, args)
}

func startServer(t testing.TB, env, args []string) *Server {
	t.Helper()
	s := &Server{Addr: FreeAddr(t), Dir: t.TempDir(), args: args, env: env}
	t.Cleanup(s.Kill) // also if it is never ready
	for !s.run(t) {   // the port was taken meanwhile
		s.Addr = FreeAddr(t)
	}
	return s
}

// Run starts the server again after it was killed, empty, on the same port.
func (s *Server) Run(t testing.TB) {
	t.Helper()
	_ = os.Remove(filepath.Join(s.Dir, "dump.rdb")) // a replica keeps what its master sent
	if !s.run(t) {
		t.Fatalf("the server ended: %s", s.output)
	}
}

// run starts the server and waits until it serves. It returns false if the port is taken.
func (s *Server) run(t testing.TB) bool {
	t.Helper()
	_, port, err := net.SplitHostPort(s.Addr)
	assert.Must(t, err)
	args := append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", s.Dir, "--save", "", "--appendonly", "no"}, s.args...)
	s.start(t, args...)
	served := false
	// The server's own output proves more than an answer on its port, which another process may have taken.
	assert.WaitFor(t, "redis-server is ready", func() error {
		printed := s.output.String()
		if served = strings.Contains(printed, "Ready to accept connections"); served || strings.Contains(printed, "Address already in use") {
			return nil
		}
		select {
		case <-s.exited:
			t.Fatalf("the server ended: %s", s.output)
		default:
		}
		return fmt.Errorf("it prints %s", printed)
	})
	return served
}

// output collects what a process prints.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements [io.Writer].
func (o *output) Write(data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(data)
}

// String returns all that was printed so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// start runs the program.
func (s *Server) start(t testing.TB, args ...string) {
	t.Helper()
	binary, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("%s is not installed: run the tests with 'make test', which installs redis-server", program)
	}
	s.output, s.exited = &output{}, make(chan struct{})
	s.command = exec.Command(binary, args...)
	if s.belowShell {
		s.command = exec.Command("sh", append([]string{"-c", `trap "" HUP; "$@" & server=$!; cat; kill "$server"`, "sh", binary}, args...)...)
		if s.alive, err = s.command.StdinPipe(); err != nil {
			t.Fatal(err)
		}
	}
	s.command.Dir, s.command.Stdout, s.command.Stderr = s.Dir, s.output, s.output
	s.command.Env = append(os.Environ(), s.env...)
	assert.Must(t, s.command.Start())
	go func(command *exec.Cmd, exited chan struct{}) {
		_ = command.Wait() // Kill causes an error here
		close(exited)
	}(s.command, s.exited)
}

// Kill kills the server and waits for its end. It may be called twice.
func (s *Server) Kill() {
	if s.shared {
		panic("other tests use this server")
	}
	if s.command == nil || s.command.Process == nil {
		return // it was never started
	}
	_ = s.command.Process.Kill() // it may be gone already
	<-s.exited
	removeFaketime(s.command.Process.Pid)
}

// Pause stops the server's process: connections stay open, and nothing answers.
func (s *Server) Pause(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// Resume continues a paused server.
func (s *Server) Resume(t testing.TB) { s.signal(t, syscall.SIGCONT) }

func (s *Server) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if s.shared {
		t.Fatal("other tests use this server")
	}
	assert.Must(t, s.command.Process.Signal(signal))
}

// URL returns the address of the test's database.
func (s *Server) URL() string { return "redis://" + s.Addr + "/" + strconv.Itoa(s.DB) }

// Client returns a plain client of the server, closed with the test.
func (s *Server) Client(t testing.TB) *goredis.Client {
	t.Helper()
	client := goredis.NewClient(&goredis.Options{Addr: s.Addr, DB: s.DB})
	t.Cleanup(func() { _ = client.Close() })
	return client
}
