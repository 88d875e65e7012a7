package chaos

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
)

// arrival is a request that reached the backend.
type arrival struct {
	passing
	units int
	node  string // each process of Caddy has another one
	local bool   // Redis has not decided it
}

// span is a part of the soak.
type span struct{ from, to time.Time }

func (s span) holds(p passing) bool { return !p.began.Before(s.from) && !p.ended.After(s.to) }

// account is what became of the requests of a feature.
type account struct {
	arrived []arrival
	denied  []arrival
	banned  []span // until it ends nothing may pass
	full    string // the units of the calm span with the least room, and how many may pass
	room    int    // in that span
	sent    int
	leased  int
	slowest time.Duration
}

// serve is the backend. It answers with the source of the decision.
func (s *soak) serve(w http.ResponseWriter, r *http.Request) {
	now, source := time.Now(), r.Header.Get("X-Source")
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	began, err := strconv.ParseInt(r.Header.Get("X-Began"), 10, 64)
	if err != nil { // no request of the load
		_, _ = w.Write([]byte(source))
		return
	}
	query, units, status := r.URL.Query(), 1, http.StatusOK
	number := func(name string) int {
		value, _ := strconv.Atoi(query.Get(name))
		return value
	}
	switch name {
	case "fixed":
		units = number("w")
	case "cost":
		units = number("cost")
		w.Header().Set("X-Cost", query.Get("cost"))
	case "status":
		if status = number("status"); status != http.StatusUnauthorized {
			units = 0
		}
	}
	s.mu.Lock()
	a := arrival{passing{time.UnixMicro(began), now}, units, r.Header.Get("X-Node"), source == "fallback"}
	s.accounts[name].arrived = append(s.accounts[name].arrived, a)
	if name == "low" { // the policy is the same
		s.accounts["shared"].arrived = append(s.accounts["shared"].arrived, a)
	}
	if source == "lease" {
		s.accounts[name].leased++
	}
	s.mu.Unlock()
	if name == "running" {
		s.run(1)
		defer s.run(-1)
		select {
		case <-time.After(soakRun):
		case <-r.Context().Done():
		}
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(source))
}

// run counts a request that begins or ends at the backend.
func (s *soak) run(change int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running += change
	s.most = max(s.most, s.running)
}

// look returns the most requests that ran at once since the last look.
func (s *soak) look() (most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	most, s.most = s.most, s.running
	return most
}

// snapshot returns what is known of a feature so far.
func (s *soak) snapshot(f feature) account {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := *s.accounts[f.name]
	a.arrived, a.denied, a.banned = slices.Clone(a.arrived), slices.Clone(a.denied), slices.Clone(a.banned)
	return a
}

// checkCalm checks a span without a fault: Redis decides, and each algorithm is exact.
func (s *soak) checkCalm(t *testing.T, calm span, stalled time.Duration) {
	t.Helper()
	places := soakPlaces
	if local := s.localIn(span{calm.from.Add(-soakSettle), calm.to}); local > 0 { // a busy machine has caused an outage
		places *= len(s.nodes)
		s.elsewhere += local
		t.Logf("%d requests passed without Redis; the machine stalled for %v", local, stalled)
		assert.ErrorIf(t, isSoak() && local > soakClients && stalled < dial.DefaultTimeout/4, "Redis did not decide between faults")
	}
	if s.ran = s.look(); s.ran > places {
		t.Errorf("%d requests ran at once, at most %d may", s.ran, places)
	}
	for _, f := range features {
		a := s.snapshot(f)
		var passed []passing
		for _, p := range a.arrived {
			if calm.holds(p.passing) && !p.local {
				passed = append(passed, slices.Repeat([]passing{p.passing}, p.units)...)
			}
		}
		r := f.rule
		if f.name == "vip" {
			r.limit = s.vip
		}
		if r.limit == 0 {
			continue
		}
		worst, bound := r.worst(passed)
		assert.ErrorIf(t, worst > bound, "%s: %d units passed in a span that may hold %d", f.name, worst, bound)
		if s.noteRoom(f.name, worst, bound); f.name == "fixed" {
			s.checkDenials(t, a, r, calm)
		}
		checkBans(t, a.banned, passed, calm)
	}
}

// localIn returns how many requests passed in a span without Redis.
func (s *soak) localIn(in span) (count int) {
	for _, f := range features {
		for _, p := range s.snapshot(f).arrived {
			if p.local && in.holds(p.passing) {
				count++
			}
		}
	}
	return count
}

// noteRoom keeps the span with the least room for the table.
func (s *soak) noteRoom(name string, worst, bound int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.accounts[name]; a.full == "" || bound-worst < a.room {
		a.full, a.room = fmt.Sprintf("%d / %d", worst, bound), bound-worst
	}
}

// checkBans checks that no client passes before the end of a ban that a response has told.
func checkBans(t *testing.T, banned []span, passed []passing, calm span) {
	t.Helper()
	for _, ban := range banned {
		for _, p := range passed {
			assert.ErrorIf(t, !ban.from.Before(calm.from) && ban.from.Before(p.began) && p.ended.Before(ban.to), "a client passed that was banned")
		}
	}
}

// checkDenials checks that a window without a fault is full where a request was denied. A weight may be 3.
func (s *soak) checkDenials(t *testing.T, a account, r rule, calm span) {
	t.Helper()
	for from := calm.from.Truncate(r.window).Add(r.window); !from.Add(r.window).After(calm.to); from = from.Add(r.window) {
		window := span{from, from.Add(r.window - time.Microsecond)}
		units, denied, local := 0, 0, false
		for _, p := range a.arrived {
			if p.ended.Before(window.from) || p.began.After(window.to) {
				continue
			}
			units += p.units
			local = local || p.local
		}
		for _, p := range a.denied {
			if window.holds(p.passing) && !p.local {
				denied++
			}
		}
		switch {
		case denied == 0 || local:
		case units < r.limit-2:
			t.Errorf("a window of %d had %d denials at %d units", r.limit, denied, units)
		default:
			s.full++
		}
	}
}

// checkFaults checks every window of the soak. A failover may lose counts once, a refund of a unit that was lost leaves
// room for another one, and each process of Caddy may admit a limit by itself.
func (s *soak) checkFaults(t *testing.T) {
	t.Helper()
	for _, f := range features {
		if f.rule.limit == 0 {
			continue
		}
		most := f.rule.limit
		if f.rule.burst != most || f.rule.algorithm == "token_bucket" {
			most += f.rule.burst + 1
		}
		if f.name == "vip" {
			most = 2 * vipLimit
		}
		type place struct {
			window int64
			node   string
		}
		sums, length := map[place]int{}, f.rule.window.Microseconds()
		for _, p := range s.snapshot(f).arrived {
			w := p.began.UnixMicro() / length
			if w != p.ended.UnixMicro()/length {
				continue
			}
			if !p.local {
				p.node = ""
			}
			sums[place{w, p.node}] += p.units
		}
		for at, units := range sums {
			from := time.UnixMicro(at.window * length)
			faults := s.faultsIn(span{from.Add(-f.rule.window), from.Add(f.rule.window)})
			bound := most*(1+faults) + f.refunds*faults
			if at.node != "" {
				bound = most * max(1, faults) // a timeout of a busy machine is an outage too
			}
			assert.ErrorIf(t, units > bound, "%s: node %q let %d units pass in the window at %v, with %d faults or failovers; at most %d may", f.name, at.node, units, from, faults, bound)
		}
	}
}

// faultsIn returns how often the faults of a span may lose counts: once each, or as often as they had failovers.
// Sentinels learn of a failover one after the other, and until the fault is healed nodes may count on both masters.
func (s *soak) faultsIn(in span) (count int) {
	for _, fault := range s.faults {
		if fault.from.Before(in.to) && in.from.Before(fault.to) {
			count += max(1, s.promotedIn(fault))
		}
	}
	return count
}

// promotedIn returns how many replicas were promoted in a span.
func (s *soak) promotedIn(in span) (count int) {
	for _, at := range s.promoted() {
		if at.After(in.from) && at.Before(in.to) {
			count++
		}
	}
	return count
}

// table returns the sums of each feature.
func (s *soak) table() string {
	lines := "feature | sent | passed | by nodes | by leases | denied | slowest | most in a calm span / bound"
	for _, f := range features {
		a, local := s.snapshot(f), 0
		for _, p := range a.arrived {
			if p.local {
				local++
			}
		}
		lines += fmt.Sprintf("\n%s | %d | %d | %d | %d | %d | %.1f ms | %s",
			f.name, a.sent, len(a.arrived), local, a.leased, len(a.denied), a.slowest.Seconds()*1000, a.full)
	}
	return aligned(lines)
}
