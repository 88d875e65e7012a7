package replay

import "github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"

func (p *printer) suggestions(s *Suggestions) {
	p.line("")
	if s.Requests == 0 {
		p.line("other limits per %s: no request met policy %s, so there is nothing to try them on", length(s.Window), s.Policy)
		return
	}
	p.line("other limits per %s, on the %s of %s that met policy %s,", length(s.Window), many(s.Requests, "request"), many(int64(s.Clients), "key"), s.Policy)
	p.line("each for the key %s; the smallest that leave keys untouched:", accesslog.Printable(s.Key, 40))
	rows := [][]string{{"99 %", "99.9 %", "ALL", "ALGORITHM"}}
	for i := range s.Ladders {
		l := &s.Ladders[i]
		rows = append(rows, []string{untouched(l.Untouched99), untouched(l.Untouched999), untouched(l.Untouched100), l.Algorithm})
	}
	p.table(rows, 3)
	for _, left := range s.NotTried {
		p.line("  %s", left)
	}
	for i := range s.Ladders {
		p.line("")
		p.line("  %s:", s.Ladders[i].Algorithm)
		p.ladder(s, &s.Ladders[i])
	}
	p.differences(s)
}

// ladder prints what each limit would have done.
func (p *printer) ladder(s *Suggestions, l *Ladder) {
	rows := [][]string{{"LIMIT", "REQUESTS DENIED", "", "KEYS DENIED", ""}}
	for _, rung := range l.Limits {
		rows = append(rows, []string{
			number(rung.Limit), number(rung.Denied), percent(rung.Denied, s.Requests),
			number(int64(rung.ClientsDenied)), percent(int64(rung.ClientsDenied), int64(s.Clients)),
		})
	}
	p.table(rows, 5)
}

func (p *printer) differences(s *Suggestions) {
	if len(s.Differences) == 0 {
		return
	}
	p.line("")
	p.line("  what the sliding window counter decides otherwise than the exact log:")
	rows := [][]string{{"LIMIT", "DENIED WRONGLY", "", "ADMITTED WRONGLY", ""}}
	for _, d := range s.Differences {
		rows = append(rows, []string{
			number(d.Limit), number(d.DeniedWrongly), percent(d.DeniedWrongly, s.Requests),
			number(d.AdmittedWrongly), percent(d.AdmittedWrongly, s.Requests),
		})
	}
	p.table(rows, 5)
}

// untouched is a limit that leaves some clients alone, if there is one.
func untouched(limit int64) string {
	if limit == 0 {
		return "none tried"
	}
	return number(limit)
}
