package redistest

import (
	"os"
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
	used   int // databases
}

// Shared returns an empty database of a server that the tests of this process share. It serves until the process ends,
// in whichever way. The server refuses commands that affect the other databases, or tell of them: a test that needs
// one, or kills its server, starts its own.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		shared.server = startShared(t)
	}
	shared.used++
	if shared.used == databases {
		t.Fatal("no database is left")
	}
	return &Server{Addr: shared.server.Addr, DB: shared.used, shared: true}
}

// startShared starts the server below a shell.
func startShared(t testing.TB) *Server {
	t.Helper()
	s := &Server{Dir: os.TempDir(), belowShell: true, args: strings.Fields("--databases " + strconv.Itoa(databases) +
		" --user default on nopass ~* " +
		"+@all -acl -config -debug -flushall -info -monitor -replicaof -script -shutdown -slaveof -slowlog")}
	for s.Addr = FreeAddr(t); !s.run(t); s.Addr = FreeAddr(t) { // the port was taken meanwhile
		_ = s.alive.Close() // the shell ends
	}
	return s
}
