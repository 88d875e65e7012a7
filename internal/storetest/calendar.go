package storetest

import (
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// periodsHold plays whole periods at their edges: they begin where the zone's dates do, whatever
// their length, and on both stores alike.
func periodsHold(t *testing.T, open Open) {
	for _, test := range []struct{ name, unit, zone, begins, ends string }{
		{"Berlin's January", "month", "Europe/Berlin", "2026-01-01T00:00:00+01:00", "2026-02-01T00:00:00+01:00"},
		{"Berlin's March", "month", "Europe/Berlin", "2026-03-01T00:00:00+01:00", "2026-04-01T00:00:00+02:00"},
		{"23 hours", "day", "Europe/Berlin", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"},
		{"25 hours", "day", "Europe/Berlin", "2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00"},
		{"without a first hour", "day", "America/Santiago", "2026-09-06T01:00:00-03:00", "2026-09-07T00:00:00-03:00"},
		{"before it", "day", "America/Santiago", "2026-09-05T00:00:00-04:00", "2026-09-06T01:00:00-03:00"},
		{"Santiago's September", "month", "America/Santiago", "2026-09-01T00:00:00-04:00", "2026-10-01T00:00:00-03:00"},
		{"Santiago's April", "month", "America/Santiago", "2026-04-01T00:00:00-03:00", "2026-05-01T00:00:00-04:00"},
		{"without the 30th", "day", "Pacific/Apia", "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"},
		{"week 53", "week", "UTC", "2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z"},
		{"February of a leap year", "month", "UTC", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"from the 15th", "month@15", "Europe/Berlin", "2026-03-15T00:00:00+01:00", "2026-04-15T00:00:00+02:00"},
		{"from the 31st of February", "month@31", "UTC", "2026-02-28T00:00:00Z", "2026-03-31T00:00:00Z"},
		{"from the 29th of a leap year", "month@29", "UTC", "2028-02-29T00:00:00Z", "2028-03-29T00:00:00Z"},
		{"from Wednesday", "week@wednesday", "Europe/Berlin", "2026-10-21T00:00:00+02:00", "2026-10-28T00:00:00+01:00"},
		{"from six", "day@06:00", "America/Santiago", "2026-09-05T06:00:00-04:00", "2026-09-06T06:00:00-03:00"},
		{"from a time that is left out", "day@02:30", "Europe/Berlin", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"},
		{"from a time that comes twice", "day@02:30", "Europe/Berlin", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"},
		{"a leap year", "year", "America/New_York", "2028-01-01T00:00:00-05:00", "2029-01-01T00:00:00-05:00"},
	} {
		for _, s := range open(t) {
			t.Run(test.name+"/"+s.Name, func(t *testing.T) {
				p := NewPolicy(t, limiter.Settings{Calendar: test.unit, Location: Zone(t, test.zone), Limit: 2})
				begins, ends := Micros(t, test.begins), Micros(t, test.ends)
				for _, step := range []struct {
					at, weight      int64
					wait, remaining int64
				}{
					{begins - 1, 2, 0, 0},
					{begins - 1, 1, 1, 0},
					{begins, 1, 0, 1},
					{begins + (ends-begins)/2, 1, 0, 0},
					{begins + (ends-begins)/2, 1, ends - begins - (ends-begins)/2, 0},
					{ends - 1, 1, 1, 0},
					{ends - 1, 0, 0, 0},
					{ends, 0, 0, 2},
					{ends, 3, -1, 2},
					{ends, 1, 0, 1},
				} {
					r := s.Play(t, step.at, p, step.weight)
					if r.RetryAfter != limiter.Duration(step.wait) || r.Remaining != step.remaining {
						t.Fatalf("weight %d at %v: wait %v, remaining %d; want %v, %d", step.weight, time.UnixMicro(step.at).In(p.Settings.Location), r.RetryAfter, r.Remaining, limiter.Duration(step.wait), step.remaining)
					}
				}
			})
		}
	}
}

// zonesChange changes the zone and the limit in the middle of a period: the count goes on, and
// the period ends where the new zone has its end.
func zonesChange(t *testing.T, open Open) {
	for _, s := range open(t) {
		at := Micros(t, "2026-06-15T12:00:00Z")
		utc := NewPolicy(t, limiter.Settings{Calendar: "month", Limit: 10})
		s.Play(t, at, utc, 7)
		auckland := NewPolicy(t, limiter.Settings{Calendar: "month", Location: Zone(t, "Pacific/Auckland"), Limit: 10})
		r := s.Play(t, at, auckland, 1)
		if want := time.Duration(Micros(t, "2026-07-01T00:00:00+12:00")-at) * time.Microsecond; r.Remaining != 2 || r.ResetAfter != want {
			t.Errorf("%s: %+v, want 2 until %v", s.Name, r, want)
		}
		other, err := auckland.WithLimit(5, 0)
		if err != nil {
			t.Fatal(err)
		}
		if r = s.Play(t, at, other, 1); r.Passes() || r.Remaining != 0 {
			t.Errorf("%s, with a lower limit: %+v", s.Name, r)
		}
		if other, err = auckland.WithLimit(limiter.MaxCharge, 0); err != nil {
			t.Fatal(err)
		}
		if r = s.Play(t, at, other, limiter.MaxCharge-8); !r.Passes() || r.Remaining != 0 {
			t.Errorf("%s, with a limit of 2^52: %+v", s.Name, r)
		}
	}
}

// startsChange changes where months begin: each start has counts of its own, and goes on with them. The month's own start is
// written as none.
func startsChange(t *testing.T, open Open) {
	for _, s := range open(t) {
		at := Micros(t, "2026-06-15T12:00:00Z")
		for _, step := range []struct {
			calendar  string
			remaining int64
		}{
			{"month", 9}, {"month@15", 9}, {"month@16", 9}, {"month@31", 9}, {"month", 8}, {"month@1", 7}, {"month@15", 8}, {"week@monday", 9},
			{"week", 8}, {"week@sunday", 9}, {"day", 9}, {"day@00:00", 8}, {"day@12:00", 9}, {"day@12:01", 9},
		} {
			p := NewPolicy(t, limiter.Settings{Calendar: step.calendar, Limit: 10})
			if r := s.Play(t, at, p, 1); r.Remaining != step.remaining {
				t.Errorf("%s, %s: %d remain, want %d", s.Name, step.calendar, r.Remaining, step.remaining)
			}
		}
	}
}

// Zone returns a time zone.
func Zone(t testing.TB, name string) *time.Location {
	t.Helper()
	location, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return location
}

// Micros returns an instant in microseconds.
func Micros(t testing.TB, text string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.UnixMicro()
}
