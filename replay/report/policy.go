package report

import (
	"fmt"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/replay"
)

// reportPolicy is the part of the report about one policy.
type reportPolicy struct {
	ID, Name, Lede  string
	DryRun          bool
	Facts           []reportFact
	Timeline, Peaks *chart
	PeaksLede       string
	Worst           *reportTable
}

// reportFact is a name with a value.
type reportFact struct{ Name, Value string }

func newReportPolicy(r *replay.Result, i int) reportPolicy {
	p := r.Policies[i]
	id := fmt.Sprintf("policy-%d", i+1)
	page := reportPolicy{ID: id, Name: sayName(p.Name), DryRun: p.DryRun, Lede: policySentence(p), Facts: policyFacts(p)}
	if p.Name == "" {
		page.Name = "without a name"
	}
	page.Timeline = timelineChart(id+"-timeline", ", policy "+page.Name, p.Timeline, r.Step)
	if page.Peaks = peaksChart(id+"-peaks", p); page.Peaks != nil {
		page.PeaksLede = peaksSentence(p)
	}
	if len(p.Worst) > 0 {
		page.Worst = worstTable(p)
	}
	return page
}

func policySentence(p replay.PolicyResult) string {
	if p.Requests == 0 {
		return "No request met this policy."
	}
	text := fmt.Sprintf("%s of %s met this policy. ", sayMany(p.Requests, "request"), sayMany(p.Clients, "client"))
	if p.Denied == 0 {
		return text + "It would have refused none of them."
	}
	return text + fmt.Sprintf("It would have refused %s (%s) and affected %s (%s).", sayCount(p.Denied), sayShare(p.Denied, p.Requests),
		sayMany(p.ClientsDenied, "client"), sayShare(p.ClientsDenied, p.Clients))
}

func policyFacts(p replay.PolicyResult) []reportFact {
	facts := []reportFact{
		{"Limit", sayCount(p.Limit) + " per " + saySpan(p.Window)},
		{"Algorithm", sayName(p.Algorithm)},
		{"Key", sayName(p.Key)},
	}
	if p.Burst > 0 {
		facts = append(facts, reportFact{"Burst", sayCount(p.Burst)})
	}
	if p.DryRun {
		facts = append(facts, reportFact{"Dry run", "yes: it counts, and lets everything pass"})
	}
	if p.EmptyKeys > 0 {
		facts = append(facts, reportFact{"Requests with an empty key", sayCount(p.EmptyKeys)})
	}
	return facts
}

func worstTable(p replay.PolicyResult) *reportTable {
	t := &reportTable{
		Caption: "Clients that policy " + sayName(p.Name) + " denied most",
		Columns: []reportColumn{{"Key", keys}, {"Requests", numbers}, {"Denied", numbers}, {"First denial (UTC)", times}, {"Longest stretch", times}, {"It began (UTC)", times}},
	}
	for _, c := range p.Worst {
		t.Rows = append(t.Rows, []string{sayName(c.Key), sayCount(c.Requests), sayCount(c.Denied),
			sayCell(c.FirstDenied), longestStretch(c), sayCell(c.LongestBegan)})
	}
	return t
}

func longestStretch(c replay.ClientResult) string {
	if c.LongestDenied == 0 {
		return nothing
	}
	return fmt.Sprintf("%s in %s", sayCount(c.LongestDenied), sayDuration(c.LongestLasted))
}

// settingsTable has what was played, policy by policy.
func settingsTable(r *replay.Result) *reportTable {
	if len(r.Policies) == 0 {
		return nil
	}
	t := &reportTable{
		Caption: "Policies that were played",
		Columns: []reportColumn{{"Policy", keys}, {"Algorithm", words}, {"Limit", numbers}, {"Window", numbers}, {"Burst", numbers}, {"Key", keys}, {"Dry run", words}},
	}
	for _, p := range r.Policies {
		burst, dry := nothing, "no"
		if p.Burst > 0 {
			burst = sayCount(p.Burst)
		}
		if p.DryRun {
			dry = "yes"
		}
		t.Rows = append(t.Rows, []string{sayName(p.Name), strings.TrimSpace(sayName(p.Algorithm)), sayCount(p.Limit), sayDuration(p.Window), burst, sayName(p.Key), dry})
	}
	return t
}
