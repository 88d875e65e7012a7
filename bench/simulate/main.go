// Command simulate plays web servers that share limits by one Redis, in virtual time and without a real
// server. It prints how many decisions reach Redis, what part of a core they take there by the costs that
// bench/sizing has measured, and how many requests are admitted in per cent of an exact limiter.
//
// Each node decides as the module does: it batches what it asks, remembers denials, and with -lease takes
// units of busy keys ahead. With the flag -page alone it prints the tables of measured.md.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	err := run(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "simulate:", err)
		os.Exit(1)
	}
}

// pageTables are the flags of the tables of measured.md, from which docs/scale.md takes its own.
var pageTables = []string{
	"-nodes 1,10,100,1000 -keys 100000 -rate 0.2 -limit 600 -duration 10s -warm-up 2s",
	"-nodes 10,100,1000 -rate 100000 -limit 10000000 -duration 6s -warm-up 3s -both",
	"-nodes 1,10,100,1000 -both -duration 40s -warm-up 10s",
	"-algorithm fixed_window -limit 300000 -nodes 100 -both -duration 150s",
	"-algorithm sliding_window_counter -limit 300000 -nodes 100 -both -duration 150s",
	"-algorithm sliding_window_log -limit 300000 -nodes 100 -both -duration 150s",
	"-algorithm token_bucket -limit 300000 -nodes 100 -both -duration 150s",
	"-keys 5000 -rate 5 -limit 600 -nodes 8 -both -duration 10s -warm-up 2s",
	"-round-trip 80ms -nodes 10 -both -duration 40s -warm-up 10s",
}

// page is the flag for all of these.
const page = "-page"

func run(args []string, out io.Writer) error {
	if len(args) == 1 && args[0] == page {
		for _, table := range pageTables {
			if _, err := fmt.Fprintf(out, "`%s`\n\n", table); err != nil {
				return err
			}
			if err := run(strings.Fields(table), out); err != nil {
				return err
			}
			if _, err := io.WriteString(out, "\n"); err != nil {
				return err
			}
		}
		return nil
	}
	scenarios, err := scenarios(args)
	if err != nil {
		return err
	}
	lines := []string{
		"| nodes | leases | decisions a request | Redis core | a run | p99 of waits | by a lease | given back | admitted of exact | excess |",
		"|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|",
	}
	for _, sc := range scenarios {
		r, err := simulate(sc)
		if err != nil {
			return err
		}
		lines = append(lines, r.line(sc))
	}
	_, err = fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}

// scenarios returns what the flags say, for each number of nodes.
func scenarios(args []string) ([]scenario, error) {
	flags := flag.NewFlagSet("simulate", flag.ContinueOnError)
	var sc scenario
	flags.StringVar(&sc.policy.algorithm, "algorithm", slidingWindow, fmt.Sprintf("one of %v", algorithms))
	flags.Int64Var(&sc.policy.limit, "limit", 1_000_000, "units per window and key")
	window := flags.Duration("window", time.Minute, "length of time in which the limit counts")
	nodes := flags.String("nodes", "1,10,100", "web servers; several numbers print a line each")
	flags.IntVar(&sc.keys, "keys", 1, "clients")
	flags.Float64Var(&sc.rate, "rate", 10_000, "requests of each key a second, over all nodes")
	roundTrip := flags.Duration("round-trip", 300*time.Microsecond, "to Redis and back, mean, without what Redis takes")
	duration := flags.Duration("duration", 60*time.Second, "simulated time")
	warm := flags.Duration("warm-up", 0, "simulated time that is not counted")
	lease := flags.Bool("lease", false, "nodes take units of busy keys ahead")
	both := flags.Bool("both", false, "print the results without leases and with them")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	sc.policy.burst, sc.seed = sc.policy.limit, 1
	sc.costs = measured[sc.policy.algorithm]
	sc.policy.window, sc.roundTrip = window.Microseconds(), roundTrip.Microseconds()
	sc.seconds, sc.warm = duration.Seconds(), warm.Seconds()
	var all []scenario
	for word := range strings.SplitSeq(*nodes, ",") {
		var err error
		if sc.nodes, err = strconv.Atoi(word); err != nil {
			return nil, fmt.Errorf("-nodes %s: use whole numbers, separated by commas", *nodes)
		}
		for _, sc.leases = range []bool{false, true} {
			if *both || sc.leases == *lease {
				all = append(all, sc)
			}
		}
	}
	return all, nil
}

// line writes a result as a line of the table.
func (r result) line(sc scenario) string {
	leases := "no"
	if sc.leases {
		leases = "yes"
	}
	requests := float64(max(1, r.Requests))
	return fmt.Sprintf("| %d | %s | %.4f | %.1f %% | %.1f | %.1f ms | %.1f %% | %.4f | %.2f %% | %d |", sc.nodes, leases,
		float64(r.Decisions)/requests, 100*r.Core, r.Batch, float64(r.Wait99)/1000,
		100*float64(r.Local)/requests, float64(r.Returns)/requests, r.admittedOfExact(), r.Excess)
}

// admittedOfExact returns what was admitted in per cent of what one limiter without delay admits.
func (r result) admittedOfExact() float64 {
	return 100 * float64(r.Admitted) / float64(max(1, r.Exact))
}
