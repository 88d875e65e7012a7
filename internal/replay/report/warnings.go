package report

import "github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"

// shownWarnings is the number of warnings at the top. More are folded.
const shownWarnings = 5

// reportWarnings are sentences about what makes the result less than exact.
type reportWarnings struct{ First, Rest []string }

// newReportWarnings returns nil without warnings. The first warning points to unread lines, whose numbers stand
// further down.
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

// incomplete reports whether lines or the rest of a file were left out, or requests were played late.
func incomplete(l replay.LogReport) bool {
	for _, f := range l.Files {
		if f.Error != "" {
			return true
		}
	}
	return l.Malformed > 0 || l.Late > 0
}
