package main

import (
	"context"
	"errors"
	"fmt"
	"math"
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
				progress("round %d of %d  %-17s %7.0f req/s  CPU %6.1f + %5.1f µs  p50 %6.2f ms  p99 %6.2f ms  wrong %.1f %%", round+1, rounds,
					t.name, sample.Rate, sample.CPU.Seconds()*1e6, sample.StoreCPU.Seconds()*1e6,
					sample.P50.Seconds()*1000, sample.P99.Seconds()*1000, sample.Wrong*100)
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
	if _, _, err := r.load(ctx, t, target, warmUp); err != nil {
		return report.Sample{}, err
	}
	cpu, storeCPU := target.process.CPU(), target.storeCPU()
	result, p99, err := r.load(ctx, t, target, r.duration)
	if err != nil {
		return report.Sample{}, err
	}
	requests := max(1, result.Rate*r.duration.Seconds())
	each := func(total time.Duration) time.Duration { return time.Duration(float64(total) / requests) }
	return report.Sample{
		Rate: result.Rate, P50: result.P50, P99: p99,
		CPU: each(target.process.CPU() - cpu), StoreCPU: each(target.storeCPU() - storeCPU),
		Resident: target.process.Resident(),
		Wrong:    target.wrong(result, requests),
	}, target.check(ctx)
}

// load puts the server under the trial's load. It returns the p99 that the trial compares.
func (r *runner) load(ctx context.Context, t *trial, target *target, duration time.Duration) (load.Result, time.Duration, error) {
	if !t.generator && t.peak == nil {
		at := load.Target{Addr: target.process.Addr, Path: target.path, Keys: t.keys, Connections: t.connections}
		result, err := r.wrk.Run(ctx, at, duration)
		return result, result.P99, err
	}
	constant := load.Constant{Addr: target.process.Addr, Connections: t.connections, Duration: duration}
	if t.peak != nil {
		constant.Rate = t.fraction * t.peak.Samples[len(t.peak.Samples)-1].Rate
	}
	if !t.others {
		result, _, err := constant.Run(ctx)
		return result, result.P99, err
	}
	allBefore, slowBefore := target.store.proxy.Counts()
	result, latencies, err := constant.Run(ctx)
	all, slow := target.store.proxy.Counts()
	return result, othersP99(latencies, float64(slow-slowBefore)/math.Max(1, float64(all-allBefore))), err
}

// othersP99 returns the p99 of the requests whose reply was not slowed down. A given fraction of the
// replies was; their requests are taken for the slowest. Any other slow request counts against the
// server.
func othersP99(latencies load.Latencies, slowed float64) time.Duration {
	return latencies.Quantile(0.99 * (1 - slowed))
}
