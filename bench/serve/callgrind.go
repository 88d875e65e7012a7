package serve

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Counted is a server under valgrind's callgrind, which counts the instructions of all its threads.
type Counted struct {
	*Process
	Addrs []string // where it listens; the first is the address of the process

	dir    string // of what callgrind writes
	counts int    // so far
}

// goCounted are the variables by which a Go program runs the same instructions again: one thread runs goroutines, nothing
// is collected, no signal preempts. Valgrind says of each processor that it knows RDTSCP, and runs it only where that
// is so.
var goCounted = []string{"GOMAXPROCS=1", "GOGC=off", "GODEBUG=asyncpreemptoff=1,cpu.rdtscp=off"}

// CountedRedis starts an empty Redis under callgrind. Its own work beside commands is as rare as it can be.
func CountedRedis(ctx context.Context, dir string) (*Counted, error) {
	for {
		addr, port, err := freeAddr()
		if err != nil {
			return nil, err
		}
		c, err := startCounted(ctx, "redis-server", dir, []string{addr}, nil, append(redisCommand(port), "--hz", "1"))
		if err != nil || c.isOwn() {
			return c, err
		}
		c.Stop() // another server has the port
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// CountedCaddy starts a Caddy under callgrind with some sites, each at an address of its own.
func CountedCaddy(ctx context.Context, dir, binary string, sites []string) (*Counted, error) {
	text, addrs := fmt.Appendf(nil, caddyOptions, ""), []string(nil)
	for _, site := range sites {
		addr, port, err := freeAddr()
		if err != nil {
			return nil, err
		}
		text = fmt.Appendf(text, caddySite, port, site)
		addrs = append(addrs, addr)
	}
	file := strings.ReplaceAll("counted"+addrs[0], ":", "-") // two builds start at once
	command, err := caddyCommand(dir, binary, file, text)
	if err != nil {
		return nil, err
	}
	return startCounted(ctx, "caddy", dir, addrs, goCounted, command)
}

// startCounted starts a command under callgrind, which does not count yet. Its threads get their turn in order: else one
// that spins may keep the one that it waits for from running.
func startCounted(ctx context.Context, name, dir string, addrs, env, command []string) (*Counted, error) {
	dir, err := os.MkdirTemp(dir, "callgrind")
	if err != nil {
		return nil, err
	}
	args := append([]string{
		"--tool=callgrind", "--fair-sched=try", "--instr-atstart=no", "--separate-threads=yes", "--vgdb-prefix=" + filepath.Join(dir, "vgdb"),
		"--log-file=" + filepath.Join(dir, "log"), "--callgrind-out-file=" + filepath.Join(dir, "out"),
	}, command...)
	p, err := start(ctx, name, addrs[0], dir, env, "valgrind", args...)
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log")) // without it the error says less
		return nil, fmt.Errorf("%w\n%s", err, log)
	}
	return &Counted{Process: p, Addrs: addrs, dir: dir}, nil
}

// Begin has callgrind watch what the process runs from now on.
func (c *Counted) Begin(ctx context.Context) error { return c.tell(ctx, "instrumentation", "on") }

// Reset begins to count at 0.
func (c *Counted) Reset(ctx context.Context) error { return c.tell(ctx, "zero") }

// tell sends callgrind a command. The process may be idle.
func (c *Counted) tell(ctx context.Context, words ...string) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	pid := strconv.Itoa(c.command.Process.Pid)
	args := append([]string{"--vgdb-prefix=" + filepath.Join(c.dir, "vgdb"), "--pid=" + pid}, words...)
	if output, err := exec.CommandContext(ctx, "vgdb", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("vgdb %s: %w\n%s", strings.Join(words, " "), err, output)
	}
	return nil
}

// Count returns the number of instructions since Reset or the last Count, and begins at 0 again. What runs by the
// clock is left out, of which a slow machine has more: Go's monitor, which has a thread of its own, and Redis's cron.
func (c *Counted) Count(ctx context.Context) (float64, error) {
	if err := c.tell(ctx, "dump"); err != nil {
		return 0, err
	}
	c.counts++
	files, _ := filepath.Glob(filepath.Join(c.dir, fmt.Sprintf("out.%d-*", c.counts))) // the pattern is right
	if len(files) == 0 {
		return 0, errors.New("callgrind has written no counts")
	}
	var sum float64
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		total, err := total(text)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		sum += total
		_ = os.Remove(file) // only to save room
	}
	return sum, nil
}

// cron is the function that Redis calls by the clock, whatever it is asked.
const cron = "serverCron"

// total returns the sum of a thread's profile without what runs by the clock: 0 for Go's monitor, and less what Redis's
// cron has run with all that it calls. Functions are named where they come first, by a number later:
//
//	cfn=(148) serverCron   a call to it
//	calls=10 0
//	+3 1217000             where, and the instructions of these calls
//	totals: 1217798
func total(profile []byte) (float64, error) {
	lines := bufio.NewScanner(bytes.NewReader(profile))
	lines.Buffer(nil, 1<<20)
	var sum, clocked float64
	names, called, isCall, found := map[string]string{}, "", false, false
	for lines.Scan() {
		line := lines.Text()
		kind, rest, _ := strings.Cut(line, "=")
		var err error
		switch {
		case isCall && called == cron:
			var cost float64
			cost, err = strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			clocked += cost
		case kind == "fn" || kind == "cfn":
			number, name, named := strings.Cut(rest, " ")
			if named {
				names[number] = name
			}
			called = names[number]
			if name == "runtime.sysmon" {
				return 0, nil
			}
		case strings.HasPrefix(line, "totals: "):
			found = true
			sum, err = strconv.ParseFloat(strings.TrimPrefix(line, "totals: "), 64)
		}
		if err != nil {
			return 0, err
		}
		isCall = kind == "calls"
	}
	if !found {
		return 0, errors.New("the profile has no totals")
	}
	return sum - clocked, lines.Err()
}
