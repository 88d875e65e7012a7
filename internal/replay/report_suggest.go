package replay

import (
	"fmt"
)

// reportSuggestions is the part of the report about other limits.
type reportSuggestions struct {
	Lede      string
	NotTried  []string
	Samples   []string // sentences about the keys that limits were played for, unless for all
	Curve     *chart
	Untouched *reportTable
	Table     *reportTable

	Running      *reportRunning
	RunningCurve *chart
}

func newReportSuggestions(r *Result) *reportSuggestions {
	s := r.Suggestions
	if s == nil {
		return nil
	}
	if s.Requests == 0 || len(s.Ladders) == 0 && s.Running == nil {
		return &reportSuggestions{Lede: fmt.Sprintf("No request met policy %s, so there was nothing to try other limits on.", sayName(s.Policy))}
	}
	counted := sayName(s.Key)
	if s.Window > 0 {
		counted += " in a window of " + sayLength(s.Window, s.Calendar, s.TimeZone)
	}
	page := &reportSuggestions{Lede: fmt.Sprintf("Other limits, tried on %s of %s, counted by %s.",
		sayCounted(s.Requests, "request"), sayCounted(s.Clients, "client"), counted), NotTried: sayNames(s.NotTried)}
	for i := range s.Ladders {
		page.addSample(&s.Ladders[i], s.Clients)
	}
	page.addRunning(r)
	if len(s.Ladders) > 0 {
		ladder, limit := currentLadder(r)
		page.Curve = curveChart("curve", s, ladder, limit)
		page.Untouched, page.Table = untouchedTable(s), algorithmTable(s)
	}
	return page
}

// addSample adds a sentence about a ladder that was played for a part of so many keys.
func (page *reportSuggestions) addSample(l *Ladder, clients int) {
	if l.Sample != nil {
		page.Samples = append(page.Samples, l.Algorithm+": "+l.Sample.sentence(clients))
	}
}

// addRunning adds the limits of requests that run at once, and their peaks where no policy shows them.
func (page *reportSuggestions) addRunning(r *Result) {
	s := r.Suggestions
	if s.Running == nil {
		return
	}
	limit := int64(0)
	for i := range r.Policies {
		if r.Policies[i].Name == s.Policy && len(s.NotTried) == 0 {
			limit = r.Policies[i].MaxConcurrent
		}
	}
	if !r.showsRunning() {
		page.Running = newReportRunning(s.Running)
	}
	page.addSample(s.Running.Limits, s.Running.Clients)
	traffic := &suggestions{Requests: s.Running.Requests - s.Running.Untimed, Clients: s.Running.Clients}
	page.RunningCurve = curveChart("running-curve", traffic, *s.Running.Limits, limit)
}

// perWindow returns what a limit is of.
func perWindow(s *suggestions) string {
	if s.Window == 0 {
		return "of requests at once"
	}
	return "per " + sayWindow(s.Window, s.Calendar)
}

// currentLadder returns the ladder of the policy's algorithm, and the policy's limit if that ladder shows the
// policy as it is. If the algorithm was not tried, it returns the first ladder without a limit.
func currentLadder(r *Result) (Ladder, int64) {
	s := r.Suggestions
	for _, p := range r.Policies {
		for _, l := range s.Ladders {
			if p.Name == s.Policy && l.Algorithm == p.Algorithm {
				return l, s.OwnLimit
			}
		}
	}
	return s.Ladders[0], 0
}
