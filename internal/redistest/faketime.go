package redistest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

// StartAt starts a server like [Start] with a clock that is ahead by a duration, or behind by a negative one. It
// needs the command faketime, and is skipped on systems whose faketime does not set LD_PRELOAD. With REDIS_SERVER it
// is skipped too: servers built against other libraries than faketime's crash under it.
func StartAt(t testing.TB, ahead time.Duration, args ...string) *Server {
	t.Helper()
	s := startServer(t, clock(t, ahead), args)
	now, err := s.Client(t).Time(context.Background()).Result()
	if off := time.Until(now.Add(-ahead)); err != nil || off.Abs() > time.Second {
		t.Fatalf("the server's clock is %v off the wanted one, error %v", off, err)
	}
	return s
}

// clock returns the environment in which a process has another clock. The command faketime prints it; as the
// parent of the server, faketime would not pass on signals. The monotonic clock stays as it is. The C library is
// loaded before jemalloc, which reads the time before faketime is ready, and then deadlocks.
func clock(t testing.TB, ahead time.Duration) []string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux can a server have another clock")
	}
	if os.Getenv("REDIS_SERVER") != "" {
		t.Skip("the server of REDIS_SERVER may not run with this machine's faketime")
	}
	binary, err := exec.LookPath("faketime")
	if err != nil {
		t.Fatal("no server can have another clock without faketime: install the package faketime (in some systems libfaketime)")
	}
	text, err := exec.Command(binary, "-f", "+0", "printenv", "LD_PRELOAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	return []string{
		"LD_PRELOAD=" + strings.TrimSpace(string(text)) + ":libc.so.6",
		fmt.Sprintf("FAKETIME=%+d", int(ahead.Seconds())), "FAKETIME_DONT_FAKE_MONOTONIC=1",
	}
}
