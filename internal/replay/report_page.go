package replay

import (
	"fmt"
	"slices"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

// reportPage is the data of the report's template. All its text is printable, and none is HTML.
type reportPage struct {
	NoAddresses       string // before all numbers
	Headline, Busiest string
	KeyValues         []reportKeyValue
	Warnings          []string
	Timeline          *chart
	Policies          []reportPolicy
	Suggestions       *reportSuggestions
	Log               reportLog
	Skipped           []string
}

func newReportPage(r *Result) reportPage {
	page := reportPage{
		NoAddresses: sentenceOf(r.NoAddresses.sentence()),
		Headline:    headline(r),
		KeyValues:   skippedRequests(r),
		Warnings:    reportWarnings(r),
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
	return display.Count(n)
}

// headline returns the result in one sentence.
func headline(r *Result) string {
	if r.Requests == 0 {
		return "There was no request to play, so there is no result for these limits."
	}
	of := fmt.Sprintf("Of %s of %s %s, ", sayCounted(r.Requests, "request"), sayCounted(r.Clients, "client"), sayBetween(r.First, r.Last))
	if r.Denied == 0 {
		return of + "none would have been refused."
	}
	return of + fmt.Sprintf("%s (%s) would have been refused, %s (%s) affected.",
		deniedText(display.Count(r.Denied), r.DeniedOff), sayPercent(r.Denied, r.Requests), sayCounted(r.ClientsDenied, "client"), sayPercent(r.ClientsDenied, r.Clients))
}

// sentenceOf ends a text that is not empty.
func sentenceOf(text string) string {
	if text == "" {
		return ""
	}
	return text + "."
}

// skippedRequests returns the numbers of requests that no limit has decided, if there are any.
func skippedRequests(r *Result) []reportKeyValue {
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

// reportWarnings returns sentences about what makes the result less than exact. The first one points to unread lines,
// whose numbers stand further down.
func reportWarnings(r *Result) []string {
	sentences := sayNames(r.Warnings)
	if incomplete(r.Log) {
		sentences = append([]string{"Not all of the log was read as it should be: see The log, below."}, sentences...)
	}
	return sentences
}

// incomplete reports whether lines or the rest of a file were left out, or requests were played late.
func incomplete(l readReport) bool {
	return l.Malformed > 0 || l.Late > 0 || slices.ContainsFunc(l.Files, hasFault)
}
