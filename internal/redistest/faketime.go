package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// StartAt starts a server like [Start] with a clock that is ahead by a duration, or behind by a negative one. It
// needs the command faketime, and is skipped on systems whose faketime does not set LD_PRELOAD. With REDIS_SERVER it
// is skipped too: servers built against other libraries than faketime's crash under it.
func StartAt(t testing.TB, ahead time.Duration, args ...string) *Server {
	t.Helper()
	s := startServer(t, clock(t, ahead), args)
	if off, err := offset(t, s, ahead); err != nil || off.Abs() > time.Second {
		t.Fatalf("the server's clock is %v off the wanted one, error %v", off, err)
	}
	return s
}

// StartStepping starts a server like [StartAt], with the clock of this machine, and returns the function that
// steps it ahead by so much, or back by a negative duration, from the machine's clock.
func StartStepping(t testing.TB, args ...string) (s *Server, step func(ahead time.Duration)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "clock")
	write := func(ahead time.Duration) {
		assert.Must(t, os.WriteFile(file, fmt.Appendf(nil, "%+d\n", int(ahead.Seconds())), 0o600))
	}
	write(0)
	env := slices.DeleteFunc(clock(t, 0), func(line string) bool { return strings.HasPrefix(line, "FAKETIME=") })
	s = startServer(t, append(env, "FAKETIME_TIMESTAMP_FILE="+file, "FAKETIME_NO_CACHE=1"), args)
	return s, func(ahead time.Duration) {
		t.Helper()
		write(ahead)
		assert.WaitFor(t, "the server's clock is stepped", func() error {
			if off, err := offset(t, s, ahead); err != nil || off.Abs() > time.Second {
				return fmt.Errorf("it is %v off, error %w", off, err)
			}
			return nil
		})
	}
}

// offset returns how much a server's clock is certainly off the one that is wanted, however long its answer took.
func offset(t testing.TB, s *Server, ahead time.Duration) (time.Duration, error) {
	t.Helper()
	asked := time.Now()
	told, err := s.Client(t).Time(context.Background()).Result()
	answered, now := time.Now(), told.Add(-ahead)
	return min(0, now.Sub(asked)) + max(0, now.Sub(answered)), err
}

// clock returns the environment in which a process has another clock. The command faketime only tells where its
// library is; as the parent of the server, faketime would not pass on signals. The monotonic clock stays as it is.
// The C library is loaded before jemalloc, which reads the time before faketime is ready, and then deadlocks.
func clock(t testing.TB, ahead time.Duration) []string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux can a server have another clock")
	}
	if os.Getenv("REDIS_SERVER") != "" {
		t.Skip("the server of REDIS_SERVER may not run with this machine's faketime")
	}
	library, err := faketimeLibrary()
	assert.Must(t, err)
	return []string{
		"LD_PRELOAD=" + library + ":libc.so.6",
		fmt.Sprintf("FAKETIME=%+d", int(ahead.Seconds())), "FAKETIME_DONT_FAKE_MONOTONIC=1",
	}
}

// faketimeLibrary returns what faketime puts into LD_PRELOAD. It asks up to ten times: faketime names a semaphore
// by its process id, and fails where a process of that id was killed and left its own.
var faketimeLibrary = sync.OnceValues(func() (string, error) {
	binary, err := exec.LookPath("faketime")
	if err != nil {
		return "", errors.New("no server can have another clock without faketime: install the package faketime (in some systems libfaketime)")
	}
	var printed, complaint bytes.Buffer
	for range 10 {
		command := exec.Command(binary, "-f", "+0", "printenv", "LD_PRELOAD")
		command.Stdout, command.Stderr = &printed, &complaint
		if err = command.Run(); err == nil {
			return strings.TrimSpace(printed.String()), nil
		}
	}
	return "", fmt.Errorf("faketime: %w: %s", err, &complaint)
})

// removeFaketime removes the semaphore and the memory that faketime's library left behind in a killed process.
func removeFaketime(pid int) {
	for _, name := range []string{"/dev/shm/sem.faketime_sem_", "/dev/shm/faketime_shm_"} {
		_ = os.Remove(name + strconv.Itoa(pid)) // most servers have none
	}
}
