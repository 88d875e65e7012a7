package redistest

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// StartAt starts a server like [Start] whose clock is ahead by that much, or behind where it is
// negative. The test is skipped where faketime is not installed.
func StartAt(t testing.TB, ahead time.Duration, args ...string) *Server {
	t.Helper()
	s := startServer(t, clock(t, ahead), args)
	now, err := s.Client(t).Time(context.Background()).Result()
	if off := time.Until(now.Add(-ahead)); err != nil || off.Abs() > time.Second {
		t.Fatalf("the server's clock is %v off what was asked for, error %v", off, err)
	}
	return s
}

// clock is the environment in which a process has another clock. It is taken from the command
// faketime, which would otherwise stand between the test and its server as a process of its own and
// keep signals from it. The clock that only measures lapses stays as it is. The C library stands before
// jemalloc, which asks for the time before faketime can tell it, and waits for itself then.
func clock(t testing.TB, ahead time.Duration) []string {
	t.Helper()
	binary, err := exec.LookPath("faketime")
	if err != nil {
		t.Skip("faketime is not installed (apt-get install faketime), so no server can have another clock")
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
