// Command instructions counts the instructions of a request in redis-server and in Caddy, for the working tree and for
// another commit, and prints the ratios:
//
//	go -C bench run ./instructions -base c1c40a99 -rows 'two/' ..
//
// Times on shared machines are noise, instructions repeat within 1 to 3 %. The servers run under valgrind's callgrind,
// which counts what runs outside of the kernel. A server first answers some requests, then the measured ones are counted
// alone, without what runs by the clock: of that a slow machine has more.
//
// What redis-server gets are the bytes of the product: each build's own Caddy answers requests, a recorder between it and
// a Redis keeps the messages, and these are replayed to the counted Redis again and again. No code of the module is called,
// so that any commit can be compared whose Caddyfiles mean the same. A batch is as large as its row says, because the
// recorder withholds an answer until the requests of the batch wait.
//
// Every number is counted twice, in two processes. Where these differ by more than 2 % the row says so. With -out a run of
// all rows writes its table into docs/benchmarks.md. It fails only where something could not be measured or written.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
)

// options are the flags.
type options struct {
	root     string // of the working tree
	base     string
	rows     *regexp.Regexp
	requests int
	served   int
	out      string // the directory of the page; empty: none
}

// defaultBase is the commit that the page compares with.
const defaultBase = "c1c40a99"

// maxRequests keeps the clients of the rows below their limits.
const maxRequests = 50_000

func main() {
	o := options{rows: regexp.MustCompile("")}
	flag.StringVar(&o.base, "base", defaultBase, "the `commit` that the working tree is compared with")
	flag.Func("rows", "measure only rows whose name matches this `expression`; names are printed during a run", func(text string) (err error) {
		o.rows, err = regexp.Compile(text)
		return err
	})
	flag.IntVar(&o.requests, "requests", 5_000, "requests of a row of redis-server, up to 50,000")
	flag.IntVar(&o.served, "served", 2_000, "requests of a row of Caddy")
	flag.StringVar(&o.out, "out", "", "write the table into benchmarks.md of this `directory`, if all rows were measured beside "+defaultBase)
	flag.Parse()
	o.root = flag.Arg(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "instructions:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.root == "" || o.requests < 1 || o.requests > maxRequests || o.served < servedRounds {
		return fmt.Errorf("write: instructions [-requests 1 to %d] [-served %d or more] <root of the working tree>", maxRequests, servedRounds)
	}
	stored, served := selected(o.rows)
	if len(stored)+len(served) == 0 {
		return fmt.Errorf("-rows %s: no row has such a name", o.rows)
	}
	if err := o.findPage(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "instructions")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory may stay
	builds, remove, err := buildBoth(ctx, o, dir)
	defer remove()
	if err != nil {
		return err
	}
	m := &measurement{options: o, dir: dir, builds: builds}
	lines := append(m.countStored(ctx, stored), m.countServed(ctx, served)...)
	failed := []error{write(os.Stdout, lines, builds)}
	if o.out != "" {
		failed = append(failed, o.publish(ctx, lines, builds))
	}
	for _, l := range lines {
		failed = append(failed, l.err)
	}
	return errors.Join(failed...)
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
