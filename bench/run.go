package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/report"
)

// runner measures trials.
type runner struct {
	fleet    *fleet
	deadline time.Time
	rounds   int
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// blockRounds is the number of rounds for which servers run before all begin anew: where a process has its memory is
// part of its speed.
const blockRounds = 10

// measure measures the trials in rounds, until each has at least so many and a narrow interval, or until the
// deadline. It removes trials of servers that cannot run here.
func (r *runner) measure(ctx context.Context, sections []*section, leastRounds int, random *rand.Rand) error {
	runtime.GOMAXPROCS(1) // the load generator leaves the other cores to the servers
	var longest time.Duration
	for {
		trials := due(sections, random, leastRounds)
		if len(trials) == 0 || r.rounds > 0 && time.Now().Add(longest).After(r.deadline) {
			return nil
		}
		if r.rounds%blockRounds == 0 {
			if err := r.restart(sections, trials); err != nil {
				return err
			}
			trials = slices.DeleteFunc(trials, func(t *trial) bool { return t.leftOut })
		}
		began := time.Now()
		for _, t := range trials {
			sample, err := r.sample(t)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
			t.Samples = append(t.Samples, sample)
		}
		r.rounds++
		longest = max(longest, time.Since(began))
		r.print(trials)
	}
}

// restart starts the servers of the trials anew, and warms them up.
func (r *runner) restart(sections []*section, trials []*trial) error {
	r.fleet.stop()
	for _, t := range trials {
		_, err := r.fleet.target(t.server)
		if errors.Is(err, errLeftOut) {
			t.leftOut = true
			continue
		}
		if err != nil {
			return err
		}
		if _, err := r.sample(t); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	for _, s := range sections {
		s.trials = slices.DeleteFunc(s.trials, func(t *trial) bool { return t.leftOut })
	}
	return nil
}

// sample measures a trial once.
func (r *runner) sample(t *trial) (report.Sample, error) {
	target, err := r.fleet.target(t.server)
	if err != nil {
		return report.Sample{}, err
	}
	client, err := target.client(t.connections)
	if err != nil {
		return report.Sample{}, err
	}
	requests := target.requests(t.keys)
	if _, err := client.Run(requests, t.warmUp); err != nil {
		return report.Sample{}, err
	}
	counted, cpu, redisCPU := target.process.Instructions(), target.process.CPU(), target.redisCPU()
	result, err := client.Run(requests, t.requests)
	if err != nil {
		return report.Sample{}, err
	}
	cpu, redisCPU = target.process.CPU()-cpu, target.redisCPU()-redisCPU
	each := func(total time.Duration) float64 { return float64(total.Nanoseconds()) / 1000 / float64(t.requests) }
	return report.Sample{
		Round: r.rounds, CPU: each(cpu), StoreCPU: each(redisCPU), Instructions: counted() / float64(t.requests),
		Rate: float64(t.requests) / result.Elapsed.Seconds(), P50: result.P50,
		Resident: target.process.Resident(), Wrong: float64(target.wrong(result, t.requests)) / float64(t.requests),
	}, nil
}

// print shows the numbers so far of the round's trials.
func (r *runner) print(trials []*trial) {
	progress("round %d, %v left", r.rounds, time.Until(r.deadline).Round(time.Second))
	for _, t := range trials {
		m := t.Median()
		progress("  %-18s CPU %6.1f + %5.1f µs  added %s  p50 %6.2f ms  wrong %.1f %%", t.name, m.CPU, m.StoreCPU, t.Added(), m.P50.Seconds()*1000, 100*t.Wrong())
	}
}

// memoryOfManyEvents returns a sentence on a trial's server with a limit of a million a minute, whose events it
// keeps.
func (r *runner) memoryOfManyEvents(t *trial) (string, error) {
	many := newTrial("many", t.Title, caddyServer("many", strings.ReplaceAll(limitMholt, "events 100", "events 1000000")).quiet()).of(500).on(1, 1000)
	sample, err := r.sample(many)
	return fmt.Sprintf("%s keeps 24 bytes for each event of a limit: with 1,000,000 a minute, and two requests of each of %d clients, it has %s MB.",
		t.Title, many.keys, report.Megabytes(sample.Resident)), err
}
