package replay

import (
	"fmt"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

// reportPolicy is the part of the report about one policy.
type reportPolicy struct {
	ID, Name, Lede string
	DryRun         bool
	KeyValues      []reportKeyValue
	Timeline       *chart
	Worst          *reportTable
	Running        *reportRunning
}

// reportKeyValue is a name with a value.
type reportKeyValue struct{ Name, Value string }

func newReportPolicy(r *Result, i int) reportPolicy {
	p := r.Policies[i]
	id := fmt.Sprintf("policy-%d", i+1)
	page := reportPolicy{ID: id, Name: sayName(p.Name), DryRun: p.DryRun(), Lede: policySentence(p), KeyValues: policyKeyValues(p)}
	if p.Name == "" {
		page.Name = "without a name"
	}
	page.Timeline = timelineChart(id+"-timeline", ", policy "+page.Name, p.Timeline, r.Step)
	page.Running, page.Worst = newReportRunning(p.Running), worstTable(p)
	return page
}

func policySentence(p PolicyResult) string {
	if p.Requests == 0 {
		return "No request met this policy."
	}
	text := fmt.Sprintf("%s of %s met this policy. ", sayCounted(p.Requests, "request"), sayCounted(p.Clients, "client"))
	if p.Denied == 0 {
		return text + "It would have refused none of them."
	}
	return text + fmt.Sprintf("It would have refused %s (%s) and affected %s (%s).", deniedText(display.Count(p.Denied), p.DeniedOff), sayPercent(p.Denied, p.Requests),
		sayCounted(p.ClientsDenied, "client"), sayPercent(p.ClientsDenied, p.Clients))
}

func policyKeyValues(p PolicyResult) []reportKeyValue {
	pairs := []reportKeyValue{{"Limit", p.Sentence()}}
	if !p.CountsRunning() {
		pairs = append(pairs, reportKeyValue{"Algorithm", sayName(p.Algorithm)})
	}
	pairs = append(pairs, reportKeyValue{"Key", sayName(p.Key())})
	if options := p.All(); len(options) > 0 {
		pairs = append(pairs, reportKeyValue{"Options", display.JoinOptions(options)})
	}
	pairs = append(pairs, unitKeyValues(p.Units)...)
	if p.EmptyKeys > 0 {
		pairs = append(pairs, reportKeyValue{"Requests with an empty key", display.Count(p.EmptyKeys)})
	}
	return pairs
}

// unitKeyValues returns the units of a policy's requests, where they say more than the numbers of requests.
func unitKeyValues(u *Units) []reportKeyValue {
	if u == nil {
		return nil
	}
	pairs := []reportKeyValue{
		{"Units offered", display.Count(u.Offered)},
		{"Units admitted", display.Count(u.Admitted)},
		{"Units denied", display.Count(u.Denied) + noBreak + "(" + sayPercent(u.Denied, u.Offered) + ")"},
	}
	if u.DeniedByOthers > 0 {
		pairs = append(pairs, reportKeyValue{"Denied by other policies", display.Count(u.DeniedByOthers)})
	}
	if u.Charged > 0 || u.Refunded > 0 {
		pairs = append(pairs, reportKeyValue{"Charged after responses", display.Count(u.Charged)},
			reportKeyValue{"Refunded after responses", display.Count(u.Refunded)}, reportKeyValue{"Units used", display.Count(u.used())})
	}
	return pairs
}

func worstTable(p PolicyResult) *reportTable {
	return tableOf("Clients that policy "+sayName(p.Name)+" denied most",
		[]reportColumn{{"Key", keys}, {"Requests", numbers}, {"Denied", numbers}, {"First denial (UTC)", times}, {"Longest stretch", times}, {"It began (UTC)", times}},
		p.Worst, func(c clientResult) []string {
			return []string{sayName(c.Key), display.Count(c.Requests), display.Count(c.Denied), sayCell(c.FirstDenied), longestStretch(c), sayCell(c.LongestBegan)}
		})
}

func longestStretch(c clientResult) string {
	if c.LongestDenied == 0 {
		return nothing
	}
	if c.LongestLasted == 0 {
		return display.Count(c.LongestDenied) + " at once"
	}
	return fmt.Sprintf("%s in %s", display.Count(c.LongestDenied), sayDuration(c.LongestLasted))
}
