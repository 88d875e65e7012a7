// Command bench compares the processor time, throughput and latency of Caddy without limits, with this
// repository's handler, and with other limiters in its place.
//
// It starts all servers itself on loopback ports, measures the rows of all tables in many short rounds, and
// prints a page or, with -out, writes it with a chart. It needs Linux, whose kernel counts for it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/report"
)

// options are the flags.
type options struct {
	rounds     int
	budget     time.Duration
	seed       uint64
	only       string
	out        string
	loadBefore string // of the machine, in the last minute
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 30, "how often each row is measured at least; more often until its interval is narrow")
	flag.DurationVar(&o.budget, "budget", 19*time.Minute, "after which no round begins, counted from the start")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().Unix()), "of the order of rows")
	flag.StringVar(&o.only, "only", "", "measure only rows whose name contains one of these comma-separated words,\nand the rows that they are compared with; names are printed during a run")
	flag.StringVar(&o.out, "out", "", "write benchmarks.md and benchmarks.svg into this directory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.rounds < 2 || o.budget <= 0 {
		return errors.New("-rounds must be 2 or more, and -budget a time such as 1m")
	}
	deadline := time.Now().Add(o.budget)
	if o.out != "" { // fail before the long run
		if err := os.MkdirAll(o.out, 0o755); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory may stay
	sections := selected(plan(), o.only)
	if len(sections) == 0 {
		return fmt.Errorf("-only %s: no row has such a name", o.only)
	}
	o.loadBefore, _, _ = strings.Cut(firstLine("/proc/loadavg"), " ")
	fleet := newFleet(ctx, dir)
	defer fleet.stop()
	r := &runner{fleet: fleet, deadline: deadline}
	if err := r.measure(ctx, sections, o.rounds, rand.New(rand.NewPCG(o.seed, 0))); err != nil {
		return err
	}
	for _, s := range sections {
		for _, t := range s.trials {
			if t.name == "plain/mholt" {
				note, err := r.memoryOfManyEvents(t)
				if err != nil {
					return err
				}
				s.note += " " + note
			}
		}
	}
	return publish(ctx, o, r.rounds, groups(sections), fleet.notes)
}

// publish writes the page and the chart, or prints the page.
func publish(ctx context.Context, o options, rounds int, groups []*report.Group, notes []string) error {
	page := report.Page{Facts: facts(ctx, o, rounds), Groups: groups, Notes: append(notes, report.Notes(groups)...)}
	if o.out == "" {
		return report.WritePage(os.Stdout, page)
	}
	file := filepath.Join(o.out, "benchmarks.md")
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	page.Chart, page.Instructions = "benchmarks.svg", report.Instructions(string(old))
	if err := writeFile(file, func(w io.Writer) error { return report.WritePage(w, page) }); err != nil {
		return err
	}
	return writeFile(filepath.Join(o.out, page.Chart), func(w io.Writer) error { return report.WriteChart(w, groups) })
}

// command returns the command that repeats this run.
func command() string {
	var flags []string
	flag.Visit(func(f *flag.Flag) {
		if f.Name != "out" { // make sets it
			flags = append(flags, "-"+f.Name+"="+f.Value.String())
		}
	})
	if flags == nil {
		return "make bench"
	}
	return fmt.Sprintf("make bench BENCHFLAGS='%s'", strings.Join(flags, " "))
}

func writeFile(name string, write func(io.Writer) error) error {
	var text strings.Builder
	if err := write(&text); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return os.WriteFile(name, []byte(text.String()), 0o644)
}
