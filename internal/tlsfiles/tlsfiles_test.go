package tlsfiles

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/regularfile"
)

// TestFiles_Load_pipe has each file be a pipe that nothing writes to.
func TestFiles_Load_pipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	assert.Must(t, syscall.Mkfifo(pipe, 0o600))
	for option, files := range map[string]Files{"ca": {CA: pipe}, "cert": {Cert: pipe, Key: pipe}} {
		_, err := files.Load()
		assert.ErrorIf(t, !errors.Is(err, regularfile.ErrNotRegular), "%s: %v", option, err)
	}
}
