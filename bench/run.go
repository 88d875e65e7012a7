package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/load"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/report"
)

// warmUp is the time under load before a measurement.
const warmUp = time.Second

// runner measures trials.
type runner struct {
	fleet    *fleet
	wrk      *load.Wrk
	duration time.Duration
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// rounds measures every trial once in each round. It removes trials of servers that cannot run here.
func (r *runner) rounds(ctx context.Context, sections []*section, rounds int) error {
	for _, s := range sections {
		kept := s.trials[:0]
		for _, t := range s.trials {
			_, err := r.fleet.target(t.server)
			if errors.Is(err, errLeftOut) {
				continue
			}
			if err != nil {
				return err
			}
			kept = append(kept, t)
		}
		s.trials = kept
	}
	for round := range rounds {
		for _, s := range sections {
			for _, t := range s.inTurn(round) {
				sample, err := r.measure(ctx, t)
				if err != nil {
					return fmt.Errorf("%s: %w", t.name, err)
				}
				t.Samples = append(t.Samples, sample)
				progress("round %d of %d  %-17s %7.0f req/s  CPU %6.1f + %5.1f µs  p99 %6.2f ms  wrong %.1f %%", round+1, rounds,
					t.name, sample.Rate, sample.CPU.Seconds()*1e6, sample.StoreCPU.Seconds()*1e6,
					sample.P99.Seconds()*1000, sample.Wrong*100)
			}
		}
	}
	return nil
}

// measure takes one sample.
func (r *runner) measure(ctx context.Context, t *trial) (report.Sample, error) {
	target, err := r.fleet.target(t.server)
	if err != nil {
		return report.Sample{}, err
	}
	load := func(duration time.Duration) (load.Result, error) {
		return r.wrk.Run(ctx, load.Target{Addr: target.process.Addr, Path: target.path, Keys: t.keys, Connections: connections}, duration)
	}
	if _, err := load(warmUp); err != nil {
		return report.Sample{}, err
	}
	cpu, redisCPU := target.process.CPU(), target.redisCPU()
	result, err := load(r.duration)
	if err != nil {
		return report.Sample{}, err
	}
	requests := max(1, result.Rate*r.duration.Seconds())
	each := func(total time.Duration) time.Duration { return time.Duration(float64(total) / requests) }
	return report.Sample{
		Rate: result.Rate, P99: result.P99,
		CPU: each(target.process.CPU() - cpu), StoreCPU: each(target.redisCPU() - redisCPU),
		Resident: target.process.Resident(),
		Wrong:    target.wrong(result, requests),
	}, target.check(ctx)
}
