package redistest

import (
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

const (
	// firstPort and ports are the range of the ports of tests. They and those of Clusters' buses lie below the
	// ports that systems give to outgoing connections.
	firstPort = 12_000
	ports     = 10_000

	// busOffset is how far the port of a Cluster's bus is above that of its server.
	busOffset = 10_000
)

// reserved holds the locked files of this process's ports: a file that is garbage is closed, which unlocks it.
var reserved struct {
	sync.Mutex
	files []*os.File
}

// FreeAddr returns a loopback address that nothing listens on, and that no other test gets while this process
// runs. A port that is merely free may be given twice before anything listens on it; two Caddys then share it
// without an error. The port 10,000 above it is free too.
func FreeAddr(t testing.TB) string {
	t.Helper()
	for range 10 * ports {
		port := firstPort + rand.IntN(ports)
		address := loopback(port)
		if reserve(t, port) && isFree(address) && isFree(loopback(port+busOffset)) {
			return address
		}
	}
	t.Fatal("no free port")
	return ""
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// reserve reserves a port for this process, and reports whether it was not reserved before.
func reserve(t testing.TB, port int) bool {
	t.Helper()
	folder := filepath.Join(os.TempDir(), "redistest-ports-"+strconv.Itoa(os.Getuid()))
	assert.Must(t, os.MkdirAll(folder, 0o700))
	file, err := os.OpenFile(filepath.Join(folder, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o600)
	assert.Must(t, err)
	if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		_ = file.Close() // another test has it
		return false
	}
	reserved.Lock()
	defer reserved.Unlock()
	reserved.files = append(reserved.files, file)
	return true
}

func isFree(address string) bool {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	return listener.Close() == nil
}
