package replay

import (
	"fmt"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

// reportRunning is the part of the report about the requests of a key that ran at once.
type reportRunning struct {
	Lede             string
	Clients, Busiest *reportTable
}

// newReportRunning returns nil for requests that are not counted.
func newReportRunning(r *runningResult) *reportRunning {
	if r == nil || r.Peak == 0 {
		return nil
	}
	return &reportRunning{
		Lede: runningSentence(r),
		Clients: tableOf("Clients by the most requests that they had running at once",
			[]reportColumn{{"At once", words}, {"Clients", numbers}, {"Percent of clients", numbers}},
			r.Peaks, func(bin peakRate) []string {
				return []string{sayRange(bin.From, bin.To), display.Count(bin.Clients), sayPercent(bin.Clients, r.Clients)}
			}),
		Busiest: tableOf("Clients with the most requests at once",
			[]reportColumn{{"Key", keys}, {"Requests", numbers}, {"At once", numbers}, {"First (UTC)", times}},
			r.Busiest, func(k runningClient) []string {
				return []string{sayName(k.Key), display.Count(k.Requests), display.Count(k.Peak), sayCell(k.PeakAt)}
			}),
	}
}

// runningSentence returns the highest numbers, and what they lack.
func runningSentence(r *runningResult) string {
	text := fmt.Sprintf("According to the log, had none been refused, one client had at most %s running at once, first at %s, and all clients together %s, first at %s.",
		sayCounted(r.Peak, "request"), sayTime(r.PeakAt), display.Count(r.Together), sayTime(r.TogetherAt))
	if r.Untimed > 0 {
		text += fmt.Sprintf(" %s without a duration in the log %s left out.", sayCounted(r.Untimed, "request"), wasWere(r.Untimed))
	}
	return text
}
