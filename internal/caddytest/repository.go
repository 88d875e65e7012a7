// Package caddytest starts the real Caddy as a process, with this module in it, for tests from outside:
// through HTTP, its admin API and its commands.
package caddytest

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// repositoryRoot returns the folder of Caddyfile.example, above the package under test. Others have a go.mod too.
var repositoryRoot = sync.OnceValues(func() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "Caddyfile.example")); err == nil {
			return folder, nil
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", errors.New("no folder above the test has a Caddyfile.example")
		}
		folder = parent
	}
})

// Path returns the path of a file or folder of the repository, which is named from its root.
func Path(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(assert.NoError(repositoryRoot())(t), filepath.FromSlash(name))
}

// ReadFile returns the text of a file of the repository, which is named from its root.
func ReadFile(t testing.TB, name string) string {
	t.Helper()
	return string(assert.NoError(os.ReadFile(Path(t, name)))(t))
}
