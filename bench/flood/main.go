// Command flood measures whether people get into a site that crawlers flood, in real time and on this machine alone:
//
//	go -C bench run ./flood -contenders recipe,nothing -floods C,D -runs 3 ..
//
// A run starts a backend of 40 pages a second, a Caddy with a contender's Caddyfile in front of it, people who have
// cookies and patience, programs that a site wants, and a flood. It counts who gets pages, and how soon. The Caddy is the
// built one of the benchmarks, with the handler of the working tree and that of mholt/caddy-ratelimit.
//
// What happens is drawn from a run's seed, and results have no time of day: the runs of two contenders by one seed meet the
// same people and bots. Answers take the time that they take, so that one run repeats to about 5 points, and three to 3.
//
// The lab stands for a trusted proxy in front of the site. It sets X-Forwarded-For to the client's address and Remote-User
// to the customer's name where a log-in was checked, and strips both from what clients send.
//
// A table in Markdown follows the runs. The exit status is 1 if a contender that has bars misses one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/serve"
)

// options are the flags.
type options struct {
	root       string // of the working tree
	contenders string
	floods     string
	runs       int
	seed       uint64
	caddy      string
	quiet      time.Duration
	mostLoad   float64
	out        string
	from       string
}

func main() {
	var o options
	flag.StringVar(&o.contenders, "contenders", "", "comma-separated `names`; recipe-without:WORD is the recipe less the lines with a word.\n"+
		"Without any: recipe on all floods, nothing and address on C. There are "+strings.Join(names(), ", "))
	flag.StringVar(&o.floods, "floods", "", "comma-separated `names` out of "+strings.Join(floodNames(), ", ")+
		"; without any all, of contenders that were named")
	flag.IntVar(&o.runs, "runs", 3, "runs of each contender on each flood")
	flag.Uint64Var(&o.seed, "seed", 1, "of the first run; the others have the next ones")
	flag.StringVar(&o.caddy, "caddy", "", "the Caddy that is measured; without one it is built")
	flag.DurationVar(&o.quiet, "quiet", time.Minute, "how long a run waits for a machine that is not too busy")
	flag.Float64Var(&o.mostLoad, "load", 2, "of the machine, a core, above which a run is void: its answers wait for the processor")
	flag.StringVar(&o.out, "out", "", "append the results of runs to this `file`, a line of JSON each")
	flag.StringVar(&o.from, "from", "", "measure nothing, print the table of this `file`")
	flag.Parse()
	o.root = flag.Arg(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "flood:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	results, err := resultsOf(ctx, o)
	if err != nil && len(results) == 0 {
		return err
	}
	return errors.Join(err, write(os.Stdout, results))
}

// resultsOf returns the results of a file, or measures them.
func resultsOf(ctx context.Context, o options) ([]Result, error) {
	if o.from != "" {
		return readResults(o.from)
	}
	if o.caddy == "" && o.root == "" || o.runs < 1 {
		return nil, errors.New("write: flood [-runs 1 or more] <root of the working tree>")
	}
	cells, err := plan(o)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "flood")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory may stay
	if o.caddy, err = caddyOf(ctx, o, dir); err != nil {
		return nil, err
	}
	return measureAll(ctx, o, cells, dir)
}

// caddyOf returns the path of the Caddy that is measured, and builds it if none is given.
func caddyOf(ctx context.Context, o options, dir string) (string, error) {
	if o.caddy != "" {
		return filepath.Abs(o.caddy)
	}
	progress("building Caddy")
	binary := filepath.Join(dir, "caddy")
	// The flags of the Makefile.
	return binary, serve.Build(ctx, filepath.Join(o.root, "bench"), "./cmd/caddy", binary, "-trimpath", "-tags", "nobadger,nomysql,nopgx")
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
