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
	dir    string
	used   int // databases
}

// Shared returns an empty database of a server that the tests of this process share. The server refuses commands
// that affect the other databases, or tell of them: a test that needs one, or kills its server, starts its own.
// TestMain has to call [Main].
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		startShared(t)
	}
	shared.used++
	if shared.used == databases {
		t.Fatal("no database is left")
	}
	return &Server{Addr: shared.server.Addr, DB: shared.used, shared: true}
}

func startShared(t testing.TB) {
	t.Helper()
	dir, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Addr: FreeAddr(t), Dir: dir, args: strings.Fields("--databases " + strconv.Itoa(databases) + " --user default on nopass ~* " +
		"+@all -acl -config -debug -flushall -info -monitor -replicaof -script -shutdown -slaveof -slowlog")}
	for !s.run(t) { // the port was taken meanwhile
		s.Addr = FreeAddr(t)
	}
	shared.server, shared.dir = s, dir
}

// Main runs the tests of a package, then ends the server that they share, and exits.
func Main(m *testing.M) {
	code := m.Run()
	if shared.server != nil {
		shared.server.Kill()
		_ = os.RemoveAll(shared.dir) // nothing is in it
	}
	os.Exit(code)
}
