package requests

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// nextStart returns when the next period begins that clocks of Berlin show so.
var nextStart = map[string]func(now time.Time) time.Time{
	"month@15": func(now time.Time) time.Time {
		next := time.Date(now.Year(), now.Month(), 15, 0, 0, 0, 0, now.Location())
		if !next.After(now) {
			next = next.AddDate(0, 1, 0)
		}
		return next
	},
	"week@wednesday": func(now time.Time) time.Time {
		next := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
		for !next.After(now) || next.Weekday() != time.Wednesday {
			next = next.AddDate(0, 0, 1)
		}
		return next
	},
	"day@06:00": func(now time.Time) time.Time {
		next := time.Date(now.Year(), now.Month(), now.Day(), 6, 0, 0, 0, now.Location())
		if !next.After(now) {
			next = next.AddDate(0, 0, 1)
		}
		return next
	},
}

// startsSite has a policy for each of some starts.
func startsSite(windows ...string) string {
	site := "redis_ratelimit {\nusage /quota\n"
	for i, window := range windows {
		site += fmt.Sprintf("policy p%d { key {query.k}; limit 5; window %s Europe/Berlin }\n", i, window)
	}
	return site + "}" + caddytest.ShowDecision
}

// periodQuota is what a client gets of a quota in a calendar period.
type periodQuota struct {
	Remaining  int64
	ResetAfter float64 `json:"reset_after"`
	Window     string
}

// wantPeriods waits until a node tells acme what remains in each period, as answers may be some milliseconds old.
func wantPeriods(t *testing.T, n *caddytest.Node, remaining ...int64) (quotas []periodQuota) {
	t.Helper()
	assert.WaitFor(t, "the quotas are told", func() error {
		var got []int64
		quotas = caddytest.ParseJSON[struct{ Policies []periodQuota }](t, n.Get(t, "/quota?k=acme")).Policies
		for _, q := range quotas {
			got = append(got, q.Remaining)
		}
		if !slices.Equal(got, remaining) {
			return fmt.Errorf("%d remain, want %d", got, remaining)
		}
		return nil
	})
	return quotas
}

// TestCalendar_starts has two nodes count in periods with starts of their own. Redis's clock steps from start to start, and
// each ends the periods of its policy alone.
func TestCalendar_starts(t *testing.T) {
	t.Parallel()
	server, step := redistest.StartStepping(t)
	berlin, windows := assert.NoError(time.LoadLocation("Europe/Berlin"))(t), []string{"month@15", "week@wednesday", "day@06:00"}
	config := caddytest.Config(caddytest.PatientRedis(server), startsSite(windows...))
	a, b := caddytest.Start(t, config), caddytest.Start(t, config)
	now := time.Now().In(berlin)
	var ends []time.Time
	for _, window := range windows {
		end := nextStart[window](now)
		if end.Sub(now) < time.Minute {
			t.Skipf("a period of %s ends while this runs", window)
		}
		ends = append(ends, end)
	}
	a.GetTimes(t, 2, "/?k=acme")
	b.GetTimes(t, 1, "/?k=acme")
	wantPeriods(t, a, 2, 2, 2)
	for i, q := range wantPeriods(t, b, 2, 2, 2) {
		left := time.Duration(q.ResetAfter * float64(time.Second))
		if off := time.Until(ends[i]) - left; q.Window != windows[i] || off.Abs() > 10*time.Second {
			t.Errorf("%s: the window is %s, reset after %v, %v off", windows[i], q.Window, left, off)
		}
	}
	for _, end := range slices.SortedFunc(slices.Values(ends), time.Time.Compare) {
		step(time.Until(end) + 10*time.Second)
		var want []int64
		for _, other := range ends {
			want = append(want, map[bool]int64{true: 2, false: 5}[other.After(end)])
		}
		for _, n := range []*caddytest.Node{a, b} {
			wantPeriods(t, n, want...)
		}
	}
	b.GetTimes(t, 1, "/?k=acme")
	wantPeriods(t, a, 4, 4, 4)
}

// TestCalendar_start_changes has two nodes with two starts of one policy: each has counts of its own, which go on after a way
// there and back.
func TestCalendar_start_changes(t *testing.T) {
	t.Parallel()
	option := caddytest.SharedRedis(t)
	from := func(day string) string { return caddytest.Config(option, startsSite("month@"+day)) }
	a, b := caddytest.Start(t, from("15")), caddytest.Start(t, from("16"))
	a.GetTimes(t, 3, "/?k=acme")
	wantPeriods(t, b, 5)
	b.GetTimes(t, 1, "/?k=acme")
	wantPeriods(t, a, 2)
	b.Reload(t, from("15"))
	wantPeriods(t, b, 2)
	b.Reload(t, from("1"))
	wantPeriods(t, b, 5)
	b.Ratelimit(t, "policies").Want(t, 0, "p0: 5 requests per calendar month (Europe/Berlin) for")
	a.Ratelimit(t, "policies").Want(t, 0, "p0: 5 requests per calendar month@15 (Europe/Berlin) for")
	a.Ratelimit(t, "state", "--policy", "p0", "--key", "acme").Want(t, 0, "remaining    2\n", "rl:{acme}:p0:p31d@15  string", "period_begins=", "units=3")
	assert.Equal(t, a.Explain(t, "/?k=acme", "").Policies[0].Remaining, 2, "the explained rest")
	a.Ratelimit(t, "reset", "--policy", "p0", "--key", "acme").Want(t, 0, "1")
	wantPeriods(t, a, 5)
	a.Get(t, "/?k=acme")
	a.Get(t, "/?k=bolt")
	a.Ask(t, http.MethodPost, "reset", `{"policy":"p0"}`).Want(t, http.StatusOK, `*"deleted":3*`) // and the one from the 16th
}

// TestCalendar_start_from has two nodes, and one without Redis, take the day of a client's months from a placeholder.
func TestCalendar_start_from(t *testing.T) {
	t.Parallel()
	for store, option := range caddytest.Stores(t) {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			const day = "month@{vars.day} 1"
			text := caddytest.Config(option, "vars day {query.day}\n"+startsSite(day))
			a := caddytest.Start(t, text)
			b := a
			if option != "" {
				b = caddytest.Start(t, text)
			}
			for _, step := range []struct {
				n              *caddytest.Node
				day, remaining string
			}{
				{a, "15", "4"}, {b, "15", "3"}, {b, "15", "2"}, {b, "16", "4"}, {a, "31", "4"}, {a, "", "4"}, {b, "1", "3"}, {b, "0", "2"}, {a, "32", "1"},
				{a, "x", "0"}, {a, "15", "1"},
			} {
				step.n.Get(t, "/?k=acme&day="+step.day).Want(t, http.StatusOK, caddytest.Any, "X-RateLimit-Remaining: "+step.remaining)
			}
			b.Get(t, "/?k=acme&day=").Want(t, http.StatusTooManyRequests, caddytest.Any)
			invalid := a.Metric(t, `invalid_values_total{option="window",policy="p0"}`)
			if b != a {
				invalid += b.Metric(t, `invalid_values_total{option="window",policy="p0"}`)
			}
			assert.Equal(t, invalid, 3, "the values that are no days")
			assert.Equal(t, b.Explain(t, "/?k=acme&day=16", "").Policies[0].Remaining, 4, "the explained rest")
			b.Get(t, "/quota?k=acme&day=15").Want(t, http.StatusOK, `*"remaining":1,*"window":"month@15"*`)
			b.Ratelimit(t, "policies").Want(t, 0, "p0: 5 requests per calendar month@{http.vars.day}, else 1 (Europe/Berlin) for")

			b.Ratelimit(t, "state", "--policy", "p0", "--key", "acme").Want(t, 0, "remaining    0\n", "begin on day 1; it has taken units in those from day 15, 16, 31 too")
			b.Get(t, "/?k=bolt&day=7")
			b.Ratelimit(t, "state", "--policy", "p0", "--key", "bolt").Want(t, 0, "remaining    4\n", "the months of this key begin on day 7\n")
			b.Ratelimit(t, "state", "--policy", "p0", "--key", "none").Want(t, 0, "remaining    5\n")

			b.Override(t, http.StatusOK, `{"policy":"p0","key":"acme","limit":9}`)
			b.Await(t, "/?k=acme&day=15", http.StatusOK, caddytest.Any, "X-RateLimit-Limit: 9")
			b.Ratelimit(t, "state", "--policy", "p0", "--key", "bolt").Want(t, 0, "limit        5\n")
			b.Ratelimit(t, "state", "--policy", "p0", "--key", "acme").Want(t, 0, "limit        9\n")

			b.Ask(t, http.MethodPost, "reset", `{"policy":"p0","key":"acme"}`).Want(t, http.StatusOK, `*"deleted":4*`)
			b.Ratelimit(t, "state", "--policy", "p0", "--key", "acme").Want(t, 0, "remaining    9\n")
			b.Ask(t, http.MethodPost, "reset", `{"policy":"p0"}`).Want(t, http.StatusOK, `*"deleted":1*`)
		})
	}
}
