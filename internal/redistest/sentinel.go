package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// StartSentinel starts a sentinel that watches the master under that name. The lines are added to its configuration.
func StartSentinel(t testing.TB, master *Server, name string, lines ...string) *Server {
	t.Helper()
	s := &Server{Addr: FreeAddr(t), Dir: t.TempDir()}
	_, port, err := net.SplitHostPort(s.Addr)
	assert.Must(t, err)
	config := append([]string{
		"port " + port,
		"bind 127.0.0.1",
		"sentinel monitor " + name + " " + strings.ReplaceAll(master.Addr, ":", " ") + " 1",
	}, lines...)
	path := filepath.Join(s.Dir, "sentinel.conf") // the sentinel rewrites it
	assert.Must(t, os.WriteFile(path, []byte(strings.Join(config, "\n")+"\n"), 0o600))
	s.start(t, path, "--sentinel")
	t.Cleanup(s.Kill)
	client := s.Client(t)
	assert.WaitFor(t, "the sentinel finds its master", func() error {
		info, err := client.Info(context.Background(), "sentinel").Result()
		if err == nil && !strings.Contains(info, "status=ok") {
			err = fmt.Errorf("it answers: %s", info)
		}
		if err != nil && strings.Contains(err.Error(), "NOAUTH") {
			return nil // it is up, and has a password
		}
		return err
	})
	return s
}
