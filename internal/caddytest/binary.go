package caddytest

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// Binary returns the path of the Caddy under test: built once per run, or named by CADDY_BINARY.
func Binary(t testing.TB) string {
	t.Helper()
	path := assert.NoError(builtBinary())(t)
	return path
}

var builtBinary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("CADDY_BINARY"); path != "" {
		return filepath.Abs(path)
	}
	root, err := repositoryRoot()
	if err != nil {
		return "", err
	}
	// go test repeats a result while the folders that the test has read are the same: here those that Caddy is made of.
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, gone error) error {
		if gone != nil || path != root && entry.IsDir() && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	modfile, err := withoutHighlighting(root)
	if err != nil {
		return "", err
	}
	// The Makefile's flags, so that both use the same build cache.
	return Build("caddytest", ".", "-modfile", modfile, "-trimpath", "-tags", "nobadger,nomysql,nopgx", "./cmd/caddy")
})

// withoutHighlighting returns a go.mod for a Caddy whose templates leave code plain. To highlight it, Caddy reads hundreds
// of languages and styles whenever it starts: two thirds of the time.
func withoutHighlighting(root string) (modfile string, err error) {
	modfile = filepath.Join(root, ".build", "caddytest.mod")
	if err := os.MkdirAll(filepath.Dir(modfile), 0o755); err != nil {
		return "", err
	}
	replace := "\nreplace github.com/yuin/goldmark-highlighting/v2 => ./internal/caddytest/testdata/highlighting\n"
	for suffix, more := range map[string]string{"mod": replace, "sum": ""} {
		text, err := os.ReadFile(filepath.Join(root, "go."+suffix))
		if err != nil {
			return "", err
		}
		if err := replaceFile(filepath.Join(root, ".build", "caddytest."+suffix), append(text, more...)); err != nil {
			return "", err
		}
	}
	return modfile, nil
}

// replaceFile writes a file that other processes may use at the same time: they see the former one or all of this one.
func replaceFile(path string, content []byte) error {
	next := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.WriteFile(next, content, 0o700); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// Build builds a program into .build and returns its path. The folder is one of the repository, and the
// arguments are those of go build. The packages of tests run at the same time: the first one builds for all.
func Build(name, folder string, args ...string) (path string, err error) {
	root, err := repositoryRoot()
	if err != nil {
		return "", err
	}
	path = filepath.Join(root, ".build", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close() //nolint:errcheck // it also unlocks
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("locking %s: %w", lock.Name(), err)
	}
	run := testRun()
	if last, err := os.ReadFile(lock.Name()); err == nil && run != "" && string(last) == run {
		return path, nil
	}
	built := path + ".built"
	build := exec.Command("go", append([]string{"build", "-buildvcs=false", "-o", built}, args...)...)
	build.Dir, build.Env = filepath.Join(root, folder), append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", name, err, output)
	}
	// Linux keeps a file that was written at once in large pages: a Caddy starts in three quarters of the time.
	program, err := os.ReadFile(built)
	if err == nil {
		err = replaceFile(path, program)
	}
	if err == nil {
		err = os.WriteFile(lock.Name(), []byte(run), 0o600)
	}
	return path, err
}

// testRun names the run of go test that started this process, by its process and when that began. It is empty where
// something else did, or where the system does not say.
func testRun() string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", os.Getppid()))
	fields := strings.Fields(string(stat))
	if len(fields) < 22 || fields[1] != "(go)" {
		return ""
	}
	return fields[0] + " " + fields[21]
}

// Environment returns the variables of a Caddy process: a home of its own, and nothing of the user's. Most processes
// end before they need a garbage collection, which would be half of the time in which they start.
func Environment(t testing.TB, env ...string) []string {
	t.Helper()
	home := t.TempDir()
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home,
		"XDG_CONFIG_HOME=" + home, "XDG_DATA_HOME=" + home, "XDG_CACHE_HOME=" + home,
		"GOGC=off", "GOMEMLIMIT=128MiB",
	}, env...)
}
