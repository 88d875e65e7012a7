package report

import "github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"

// shownWarnings is how many warnings stand at the top; more are folded up.
const shownWarnings = 5

// reportWarnings are sentences about what makes the result less than exact.
type reportWarnings struct{ First, Rest []string }

// newReportWarnings is nil without warnings. What was not read has numbers of its own, further down; that
// there is something is told first.
func newReportWarnings(r *replay.Result) *reportWarnings {
	sentences := sayNames(r.Warnings)
	if incomplete(r.Log) {
		sentences = append([]string{"Not all of the log was read as it should be: see The log, below."}, sentences...)
	}
	if len(sentences) == 0 {
		return nil
	}
	shown := min(shownWarnings, len(sentences))
	return &reportWarnings{First: sentences[:shown], Rest: sentences[shown:]}
}

// incomplete tells whether lines, or the rest of a file, were left out or played at a later time.
func incomplete(l replay.LogReport) bool {
	for _, f := range l.Files {
		if f.Error != "" {
			return true
		}
	}
	return l.Malformed > 0 || l.Late > 0
}
