package report

import (
	"fmt"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/humanize"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
)

// reportPage is the data of the report's template. All its text is printable, and none is HTML.
type reportPage struct {
	Headline, Busiest string
	Tiles             []reportTile
	KeyValues         []reportKeyValue
	Warnings          *reportWarnings
	Timeline          *chart
	Policies          []reportPolicy
	Suggestions       *reportSuggestions
	Log               reportLog
	Skipped           []string
}

// reportTile is a prominent number, with a note on the whole that it belongs to.
type reportTile struct{ Name, Value, Note, Class string }

func newReportPage(r *replay.Result) reportPage {
	page := reportPage{
		Headline:    headline(r),
		Tiles:       reportTiles(r),
		KeyValues:   skippedRequests(r),
		Warnings:    newReportWarnings(r),
		Timeline:    timelineChart("timeline", "", r.Timeline, r.Step),
		Suggestions: newReportSuggestions(r),
		Log:         newReportLog(r.Log),
		Skipped:     sayNames(r.Skipped),
	}
	if r.Peak.Requests > 0 {
		page.Busiest = fmt.Sprintf("The busiest minute began at %s, with %s, %s of them refused.",
			sayTime(r.Peak.Begins), sayCounted(r.Peak.Requests, "request"), noneOr(r.Peak.Denied))
	}
	for i := range r.Policies {
		page.Policies = append(page.Policies, newReportPolicy(r, i))
	}
	return page
}

func noneOr(n int64) string {
	if n == 0 {
		return "none"
	}
	return humanize.Count(n)
}

// headline returns the result in one sentence.
func headline(r *replay.Result) string {
	if r.Requests == 0 {
		return "There was no request to play, so there is no result for these limits."
	}
	if r.Requests == 1 {
		return fmt.Sprintf("The only request, at %s, would have been %s.", sayTime(r.First), map[bool]string{false: "admitted", true: "refused"}[r.Denied > 0])
	}
	of := fmt.Sprintf("Of %s of %s %s, ", sayCounted(r.Requests, "request"), sayCounted(r.Clients, "client"), sayBetween(r.First, r.Last))
	if r.Denied == 0 {
		return of + "none would have been refused."
	}
	return of + fmt.Sprintf("%s (%s) would have been refused, %s (%s) affected.",
		humanize.Count(r.Denied), sayPercent(r.Denied, r.Requests), sayCounted(r.ClientsDenied, "client"), sayPercent(r.ClientsDenied, r.Clients))
}

func reportTiles(r *replay.Result) []reportTile {
	if r.Requests == 0 {
		return nil
	}
	return []reportTile{
		{Name: humanize.Noun(r.Requests, "request"), Value: humanize.Count(r.Requests), Note: "in " + sayDuration(r.Last.Sub(r.First))},
		{Name: "refused", Value: humanize.Count(r.Denied), Note: sayPercent(r.Denied, r.Requests) + " of the requests", Class: "bad"},
		{Name: humanize.Noun(r.Clients, "client"), Value: humanize.Count(r.Clients), Note: "addresses or host names"},
		{Name: humanize.Noun(r.ClientsDenied, "client") + " affected", Value: humanize.Count(r.ClientsDenied), Note: sayPercent(r.ClientsDenied, r.Clients) + " of the clients", Class: "bad"},
	}
}

// skippedRequests returns the numbers of requests that no limit has decided, if there are any.
func skippedRequests(r *replay.Result) []reportKeyValue {
	var pairs []reportKeyValue
	for _, f := range []struct {
		name string
		n    int64
	}{
		{"Met no policy", r.Unlimited},
		{"From exempt clients", r.Exempt},
		{"Refused for an empty key", r.Rejected},
		{"Accepted by no server, not played", r.Unplayable},
	} {
		if f.n > 0 {
			pairs = append(pairs, reportKeyValue{f.name, sayCounted(f.n, "request")})
		}
	}
	return pairs
}

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
