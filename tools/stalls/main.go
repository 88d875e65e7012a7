// Command stalls runs the binary of a test while processes stand still at random, as on a busy machine:
//
//	go test -exec stalls ./caddytest/requests
//
// Again and again it stops the test, or a Caddy or a Redis that the test has started, for up to [longest]. A process that
// is stopped already is left alone, as tests stop some; one that a test stops while it stands still goes on too early, so that
// a test of a paused Redis may fail for that. The exit code is that of the test. It needs Linux.
package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// longest is how long a process stands still at most: above a second, for which the deny cache and a lease hold.
	longest = 1300 * time.Millisecond

	// between is how long no process stands still at most.
	between = 600 * time.Millisecond
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "use: stalls <binary of a test> <arguments>")
		os.Exit(2)
	}
	code, stops, err := run(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "stalls:", err)
		os.Exit(2)
	}
	fmt.Println(stops, "times a process stood still")
	os.Exit(code)
}

// run runs a test, and returns its exit code and how often one of its processes was stopped.
func run(binary string, args []string) (code, stops int, err error) {
	test := exec.Command(binary, args...)
	test.Stdout, test.Stderr = os.Stdout, os.Stderr
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT) // go test sends them when the time is over
	if err := test.Start(); err != nil {
		return 0, 0, err
	}
	ended := make(chan struct{})
	go func() {
		_ = test.Wait() // its state has the exit code
		close(ended)
	}()
	stopped := 0 // the process that stands still
	for pause := between / 2; ; {
		select {
		case s := <-signals:
			_ = test.Process.Signal(s) // it may have ended
		case <-ended:
			return test.ProcessState.ExitCode(), stops, nil
		case <-time.After(pause):
		}
		if stopped != 0 {
			_ = syscall.Kill(stopped, syscall.SIGCONT) // it may be gone
			stopped, pause = 0, upTo(between)
			continue
		}
		running := runningBelow(test.Process.Pid)
		if len(running) == 0 {
			continue
		}
		stopped, pause = running[rand.IntN(len(running))], upTo(longest)
		if syscall.Kill(stopped, syscall.SIGSTOP) == nil {
			stops++
		}
	}
}

func upTo(d time.Duration) time.Duration { return d/10 + rand.N(d*9/10) }

// process is what Linux tells of one in /proc/<pid>/stat.
type process struct {
	name, state string
	parent      int
}

// runningBelow returns the test and the Caddys and Redis servers below it that are not stopped. The test is as likely as all
// others.
func runningBelow(test int) (pids []int) {
	processes := map[int]process{}
	entries, _ := os.ReadDir("/proc") // without it there is nothing to stop
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			if p, found := look(pid); found {
				processes[pid] = p
			}
		}
	}
	family := []int{test}
	for i := 0; i < len(family); i++ {
		for pid, p := range processes {
			if p.parent == family[i] {
				family = append(family, pid)
			}
		}
	}
	for _, pid := range family[1:] {
		p := processes[pid]
		isServer := strings.HasPrefix(p.name, "caddy") || strings.HasPrefix(p.name, "redis")
		if isServer && p.state != "T" {
			pids = append(pids, pid)
		}
	}
	return append(pids, slices.Repeat([]int{test}, max(len(pids), 1))...)
}

func look(pid int) (p process, found bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p, false
	}
	_, rest, _ := strings.Cut(string(text), "(")
	end := strings.LastIndex(rest, ") ")
	if end < 0 {
		return p, false
	}
	fields := strings.Fields(rest[end+2:])
	if len(fields) < 2 {
		return p, false
	}
	p = process{name: rest[:end], state: fields[0]}
	p.parent, err = strconv.Atoi(fields[1])
	return p, err == nil
}
