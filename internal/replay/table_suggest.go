package replay

import (
	"fmt"
	"math"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

func (p printer) suggestions(r *Result) {
	s := r.Suggestions
	if s.Requests == 0 {
		p.line("")
		limits := "other limits"
		if s.Window > 0 {
			limits += " per " + s.windowText()
		}
		p.line("%s: no request met policy %s, so there is nothing to try them on", limits, s.Policy)
		return
	}
	if len(s.Ladders) > 0 {
		p.windowLimits(s)
	}
	if len(s.Ladders) == 0 && len(s.NotTried) > 0 {
		p.line("")
	}
	for _, sentence := range s.NotTried {
		p.line("  %s", sentence)
	}
	for i := range s.Ladders {
		p.line("")
		p.line("  %s:", s.Ladders[i].Algorithm)
		p.sample(s.Ladders[i].Sample, s.Clients)
		p.ladder(&s.Ladders[i], s.Requests, s.Clients)
	}
	p.runningLimits(s, r.showsRunning())
}

// windowLimits prints the smallest limits per window that leave keys untouched.
func (p printer) windowLimits(s *suggestions) {
	p.line("")
	p.line("other limits per %s, on the %s of %s that met policy %s,", s.windowText(), display.Counted(s.Requests, "request"), display.Counted(s.Clients, "key"), s.Policy)
	p.line("each for the key %s; the smallest that leave keys untouched:", display.EscapeShort(s.Key, 40))
	var rows [][]string
	for i := range s.Ladders {
		l := &s.Ladders[i]
		rows = append(rows, []string{untouched(l.Untouched99), untouched(l.Untouched999), untouched(l.Untouched100), l.Algorithm})
	}
	p.table(3, []string{"99 %", "99.9 %", "ALL", "ALGORITHM"}, rows)
}

// sample prints for which keys limits were played, unless for all.
func (p printer) sample(s *sampleReport, clients int) {
	if s != nil {
		p.line("  %s", s.sentence(clients))
	}
}

// sentence returns for which of so many keys limits were played, and how far the numbers can be from those of all keys.
func (s *sampleReport) sentence(clients int) string {
	percent := func(fraction float64) string { return display.Percent(int64(math.Ceil(fraction*1e6)), 1_000_000) }
	text := fmt.Sprintf("played for %s of %s, chosen by a hash: right within %s of the requests and %s of the keys; the limit that leaves all untouched is that of the chosen ones",
		display.Count(s.Clients), display.Counted(clients, "key"), percent(s.ErrorRequests), percent(s.ErrorClients))
	if s.CutClients > 0 {
		text += fmt.Sprintf("; of %s only the first %s, which stand for all", display.Counted(s.CutClients, "key"), display.Counted(s.MostOfClient, "request"))
	}
	return text
}

// ladder prints what each limit would have denied of so many requests and clients.
func (p printer) ladder(l *Ladder, requests int64, clients int) {
	var rows [][]string
	for _, limit := range l.Limits {
		rows = append(rows, []string{
			display.Count(limit.Limit), display.Count(limit.Denied), display.Percent(limit.Denied, requests),
			display.Count(limit.ClientsDenied), display.Percent(limit.ClientsDenied, clients),
		})
	}
	p.table(5, []string{"LIMIT", "REQUESTS DENIED", "", "KEYS DENIED", ""}, rows)
}

// untouched returns the limit that leaves a part of the clients untouched, if one was tried.
func untouched(limit int64) string {
	if limit == 0 {
		return "none tried"
	}
	return display.Count(limit)
}
