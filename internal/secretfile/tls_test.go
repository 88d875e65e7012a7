package secretfile

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestFiles_Load_pipe has each file be a pipe that nothing writes to.
func TestFiles_Load_pipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	assert.Must(t, syscall.Mkfifo(pipe, 0o600))
	for option, files := range map[string]TLS{"ca": {CA: pipe}, "cert": {Cert: pipe, Key: pipe}} {
		_, err := files.Load()
		assert.ErrorIf(t, !errors.Is(err, ErrNotRegular), "%s: %v", option, err)
	}
}
