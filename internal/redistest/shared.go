package redistest

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// databases is how many tests of a process can share a server.
const databases = 10_000

// shared is the server that the tests of this process share.
var shared struct {
	sync.Mutex
	server *Server
	alive  io.Closer // open as long as this process lives, and the server with it
	used   int       // databases
}

// Shared returns an empty database of a server that the tests of this process share. It serves until the process ends,
// in whichever way. The server refuses commands that affect the other databases, or tell of them: a test that needs
// one, or kills its server, starts its own.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	for shared.server == nil {
		shared.server = startShared(t)
	}
	shared.used++
	if shared.used == databases {
		t.Fatal("no database is left")
	}
	return &Server{Addr: shared.server.Addr, DB: shared.used, shared: true}
}

// startShared starts the server below a shell, which stops it when its input ends. It returns nil if the port is taken.
func startShared(t testing.TB) *Server {
	t.Helper()
	s := &Server{Addr: FreeAddr(t), Dir: os.TempDir(), output: &output{}}
	_, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	s.command = exec.Command("sh", "-c", `"$@" & server=$!; cat; kill "$server"`, "sh",
		program, "--port", port, "--bind", "127.0.0.1", "--dir", s.Dir, "--save", "", "--appendonly", "no",
		"--databases", strconv.Itoa(databases), "--user", "default", "on", "nopass", "~*", "+@all",
		"-acl", "-config", "-debug", "-flushall", "-info", "-monitor", "-replicaof", "-script", "-shutdown", "-slaveof", "-slowlog")
	s.command.Stdout, s.command.Stderr = s.output, s.output
	if shared.alive, err = s.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	served := false
	WaitFor(t, "the shared redis-server is ready", func() error {
		printed := s.output.String()
		served = strings.Contains(printed, "Ready to accept connections")
		switch {
		case served || strings.Contains(printed, "Address already in use"):
			return nil
		case strings.Contains(printed, "not found"):
			t.Fatalf("%s is not installed: run the tests with 'make test', which installs redis-server", program)
		}
		return fmt.Errorf("it prints %s", printed)
	})
	if !served {
		_ = shared.alive.Close() // the shell ends
		return nil
	}
	return s
}
