package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestMain has the binary be a test, or a server that it starts, where a test asks for it.
func TestMain(m *testing.M) {
	switch os.Getenv("BE") {
	case "test": // that ends, with another exit code, when it has stood still
		continued := make(chan os.Signal, 1)
		signal.Notify(continued, syscall.SIGCONT)
		<-continued
		os.Exit(3)
	case "server":
		fmt.Println("ready")
		<-time.After(time.Minute)
	default:
		os.Exit(m.Run())
	}
}

func TestRun(t *testing.T) {
	t.Setenv("BE", "test")
	code, stops, err := run(os.Args[0], nil)
	if code != 3 || stops == 0 || err != nil {
		t.Errorf("exit code %d after %d stops, %v; want 3 after some", code, stops, err)
	}
	if _, _, err := run(filepath.Join(t.TempDir(), "missing"), nil); err == nil {
		t.Error("no error without a binary")
	}
}

// TestRunningBelow has a Redis, another program, and a Caddy that is stopped below this process.
func TestRunningBelow(t *testing.T) {
	t.Setenv("BE", "server")
	pids := map[string]int{}
	for _, name := range []string{"redis-server", "other", "caddy"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.Symlink(os.Args[0], path); err != nil {
			t.Fatal(err)
		}
		server := exec.Command(path)
		out, err := server.StdoutPipe()
		if err == nil {
			err = server.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = server.Process.Kill(), server.Wait() })
		if _, err := out.Read(make([]byte, 9)); err != nil { // it has its name
			t.Fatal(err)
		}
		pids[name] = server.Process.Pid
	}
	here := os.Getpid()
	both := func(got []int, server int) bool { return len(got) == 2 && got[0] == server && got[1] == here }
	if got := runningBelow(here); len(got) != 4 || got[2] != here || got[3] != here {
		t.Errorf("got %v; want the Redis and the Caddy of %v, and twice %d", got, pids, here)
	}
	stop(t, pids["caddy"])
	if got := runningBelow(here); !both(got, pids["redis-server"]) {
		t.Errorf("got %v; want the Redis of %v, and %d", got, pids, here)
	}
}

// stop stops a process, and waits until it is.
func stop(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); time.Since(begin) < time.Minute; {
		if p, _ := look(pid); p.state == "T" {
			return
		}
		<-time.After(time.Millisecond)
	}
	t.Fatal("it does not stop")
}
