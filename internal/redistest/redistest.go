// Package redistest starts real Redis servers for tests, on free loopback ports.
package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is a running redis-server.
type Server struct {
	Addr string // 127.0.0.1:port
	Dir  string // its working directory

	args    []string
	command *exec.Cmd
	output  *output
	exited  chan struct{}
}

// Start starts a server that the test's end stops. The arguments are options of redis-server's
// command line. Persistence is off.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{Addr: FreeAddr(t), Dir: t.TempDir(), args: args}
	for !s.run(t) { // the port was taken meanwhile
		s.Addr = FreeAddr(t)
	}
	t.Cleanup(s.Kill)
	return s
}

// Run starts the server again after it was killed, empty, on the same port.
func (s *Server) Run(t testing.TB) {
	t.Helper()
	if !s.run(t) {
		t.Fatalf("the server ended: %s", s.output)
	}
}

// run starts the server and waits until it serves. It is false where the port is taken.
func (s *Server) run(t testing.TB) bool {
	t.Helper()
	_, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", s.Dir, "--save", "", "--appendonly", "no"}, s.args...)
	s.start(t, "redis-server", args...)
	served := false
	// An answer on its port would prove less than the server's own word: another process may have
	// taken the port.
	WaitFor(t, "redis-server is ready", func() error {
		said := s.output.String()
		if served = strings.Contains(said, "Ready to accept connections"); served || strings.Contains(said, "Address already in use") {
			return nil
		}
		select {
		case <-s.exited:
			t.Fatalf("the server ended: %s", s.output)
		default:
		}
		return fmt.Errorf("it says %s", said)
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

// start runs a binary of Redis.
func (s *Server) start(t testing.TB, name string, args ...string) {
	t.Helper()
	binary, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is not installed: run the tests with 'make test', which installs it", name)
	}
	s.output, s.exited = &output{}, make(chan struct{})
	s.command = exec.Command(binary, args...)
	s.command.Dir, s.command.Stdout, s.command.Stderr = s.Dir, s.output, s.output
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func(command *exec.Cmd, exited chan struct{}) {
		_ = command.Wait() // killed by Kill: no news
		close(exited)
	}(s.command, s.exited)
}

// Kill ends the server at once and waits until it is gone. Killing it twice is fine.
func (s *Server) Kill() {
	_ = s.command.Process.Kill() // gone already: fine
	<-s.exited
}

// Pause stops the server's process as it stands: connections stay open and nothing answers.
func (s *Server) Pause(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// Resume continues a paused server.
func (s *Server) Resume(t testing.TB) { s.signal(t, syscall.SIGCONT) }

func (s *Server) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := s.command.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// Client returns a plain client of the server, closed with the test.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.Addr})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// FreeAddr returns a loopback address that nothing listens on.
func FreeAddr(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // nothing was sent
	return listener.Addr().String()
}

// WaitFor tries a condition until it holds, for at most 20 seconds.
func WaitFor(t testing.TB, what string, condition func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := condition()
		if err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("waiting until %s: %v", what, err)
		}
	}
}

// StartCluster starts a Cluster of three masters and returns them. Its bus needs ports 10,000
// above the servers', so that these are taken below 50,000.
func StartCluster(t testing.TB) []*Server {
	t.Helper()
	masters := make([]*Server, 3)
	for i := range masters {
		s := &Server{Addr: freeBusAddr(t), Dir: t.TempDir()}
		s.args = []string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-config-file", filepath.Join(s.Dir, "nodes.conf")}
		s.Run(t)
		t.Cleanup(s.Kill)
		masters[i] = s
	}
	formCluster(t, masters)
	return masters
}

// formCluster gives each master a third of the slots and waits until all agree.
func formCluster(t testing.TB, masters []*Server) {
	t.Helper()
	ctx := context.Background()
	for i, s := range masters {
		client := s.Client(t)
		first, last := 16384*i/len(masters), 16384*(i+1)/len(masters)-1
		if err := client.ClusterAddSlotsRange(ctx, first, last).Err(); err != nil {
			t.Fatal(err)
		}
		host, port, _ := net.SplitHostPort(masters[0].Addr)
		if err := client.ClusterMeet(ctx, host, port).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range masters {
		client := s.Client(t)
		WaitFor(t, "the cluster is complete", func() error {
			info := client.ClusterInfo(ctx).Val()
			if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_size:3") {
				return fmt.Errorf("cluster info: %s", info)
			}
			return nil
		})
	}
}

// freeBusAddr returns a free address whose port leaves room for the bus port.
func freeBusAddr(t testing.TB) string {
	t.Helper()
	start := 20000 + os.Getpid()%10000
	for port := start; port < start+20000; port++ {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		bus := net.JoinHostPort("127.0.0.1", strconv.Itoa(port+10000))
		if isFree(address) && isFree(bus) {
			return address
		}
	}
	t.Fatal("no free ports for a cluster")
	return ""
}

func isFree(address string) bool {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	return listener.Close() == nil
}
