package main

import (
	"context"
	"fmt"
	"strings"
)

// coreOfRedis prints what one core of Redis decides, by how many requests share a script run, and what a run
// and a decision cost by these measurements, for bench/simulate.
func coreOfRedis(ctx context.Context, r *redisServer) error {
	fmt.Println("| algorithm | nodes | under way on each | decisions a run | CPU µs a decision | decisions/s of a core |\n|---|--:|--:|--:|--:|--:|")
	var costs []string
	for _, algorithm := range []string{"sliding_window_counter", "fixed_window", "token_bucket", "sliding_window_log"} {
		var runs []scriptRun
		for _, l := range []load{
			{algorithm, ipv4, 50_000, 4, 1, 1, false, 32},
			{algorithm, ipv4, 50_000, 4, 1, 8, false, 8},
			{algorithm, ipv4, 100_000, 5, 1, 64, false, 1},
			{algorithm, ipv4, 100_000, 5, 1, 512, false, 1},
		} {
			s, err := r.measure(ctx, l)
			if err != nil {
				return err
			}
			requests := float64(l.clients * l.requests)
			cpu := s.cpu / requests * million
			runs = append(runs, scriptRun{requests / s.batches, cpu * requests / s.batches})
			fmt.Printf("| %#q | %d | %d | %.1f | %.1f | %.0f,000 |\n", l.algorithm, l.nodes, l.together, requests/s.batches,
				cpu, 1000/cpu)
		}
		run, decision := fit(runs)
		costs = append(costs, fmt.Sprintf("| %#q | %.0f | %.1f |", algorithm, run, decision))
	}
	fmt.Printf("\n| algorithm | a run | a decision |\n|---|--:|--:|\n%s\n\n", strings.Join(costs, "\n"))
	return nil
}

// scriptRun is the mean script run of a load: its decisions and microseconds.
type scriptRun struct{ decisions, cpu float64 }

// fit returns the cost of a run beside its decisions, and that of a decision: the line through the runs
// whose relative errors have the least squares.
func fit(runs []scriptRun) (run, decision float64) {
	var weights, x, y, xx, xy float64
	for _, r := range runs {
		w := 1 / (r.cpu * r.cpu)
		weights += w
		x += w * r.decisions
		y += w * r.cpu
		xx += w * r.decisions * r.decisions
		xy += w * r.decisions * r.cpu
	}
	decision = (weights*xy - x*y) / (weights*xx - x*x)
	return (y - decision*x) / weights, decision
}
