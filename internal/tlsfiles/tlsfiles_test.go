package tlsfiles

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/regularfile"
)

// TestFiles_Load_pipe has each file be a pipe that nothing writes to.
func TestFiles_Load_pipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for option, files := range map[string]Files{"ca": {CA: pipe}, "cert": {Cert: pipe, Key: pipe}} {
		if _, err := files.Load(); !errors.Is(err, regularfile.ErrNotRegular) {
			t.Errorf("%s: %v", option, err)
		}
	}
}
