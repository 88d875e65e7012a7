// Command bench compares the processor time, throughput and latency of Caddy without limits, with this
// repository's handler, and with other limiters in its place.
//
// It starts all servers itself on loopback ports, measures the rows of the table in rounds, one after
// another, and prints a page or, with -out, writes it with a chart.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/load"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/report"
)

// options are the flags.
type options struct {
	rounds     int
	seconds    int
	only       string
	out        string
	loadBefore string // of the machine, in the last minute
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 8, "how often each row is measured")
	flag.IntVar(&o.seconds, "seconds", 2, "how long a row is measured in a round, after a second of warming up")
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
	if o.rounds < 1 || o.seconds < 1 {
		return errors.New("-rounds and -seconds must be whole numbers from 1")
	}
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
	wrk, err := load.NewWrk(dir)
	if err != nil {
		return err
	}
	groups := selected(plan(), o.only)
	if len(groups) == 0 {
		return fmt.Errorf("-only %s: no row has such a name", o.only)
	}
	o.loadBefore, _, _ = strings.Cut(firstLine("/proc/loadavg"), " ")
	fleet := newFleet(ctx, dir)
	defer fleet.stop()
	r := &runner{fleet: fleet, wrk: wrk, duration: time.Duration(o.seconds) * time.Second}
	if err := r.rounds(ctx, groups, o.rounds); err != nil {
		return err
	}
	return publish(ctx, o, rows(groups), fleet.notes)
}

// publish writes the page and the chart, or prints the page.
func publish(ctx context.Context, o options, groups []*report.Group, notes []string) error {
	page := report.Page{Facts: facts(ctx, o), Groups: groups, Notes: append(notes, report.Notes(groups)...)}
	if o.out == "" {
		return report.WritePage(os.Stdout, page)
	}
	page.Chart = "benchmarks.svg"
	if err := writeFile(filepath.Join(o.out, "benchmarks.md"), func(w io.Writer) error { return report.WritePage(w, page) }); err != nil {
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
