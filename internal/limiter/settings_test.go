package limiter_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // zones of machines without a table

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

func TestNewPolicy_errors(t *testing.T) {
	second := time.Second
	negative := -time.Second
	good := limiter.Settings{Name: "p", Algorithm: limiter.LeakyBucket, Limit: 10, Window: time.Minute}
	tests := []struct {
		name  string
		with  func(*limiter.Settings)
		wants string // part of the error; empty: valid
	}{
		{"nothing wrong", func(*limiter.Settings) {}, ""},
		{"the default algorithm", func(s *limiter.Settings) { s.Algorithm = "" }, ""},
		{"no name", func(s *limiter.Settings) { s.Name = "" }, "Name"},
		{"a long name", func(s *limiter.Settings) { s.Name = strings.Repeat("x", 65) }, "Name"},
		{"a name with a colon", func(s *limiter.Settings) { s.Name = "a:b" }, "Name"},
		{"an unknown algorithm", func(s *limiter.Settings) { s.Algorithm = "magic" }, "use one of"},
		{"limit 0", func(s *limiter.Settings) { s.Limit = 0 }, "Limit"},
		{"window 0", func(s *limiter.Settings) { s.Window = 0 }, "Window"},
		{"a window below 1ms", func(s *limiter.Settings) { s.Window = 999 * time.Microsecond }, "Window"},
		{"a window in nanoseconds", func(s *limiter.Settings) { s.Window = time.Second + 1 }, "Window"},
		{"a negative burst", func(s *limiter.Settings) { s.Burst = -1 }, "Burst"},
		{"a burst on a window", func(s *limiter.Settings) { s.Algorithm, s.Burst = limiter.FixedWindow, 3 }, "only token_bucket"},
		{"a queue", func(s *limiter.Settings) { s.MaxDelay = &second }, ""},
		{"a queue on gcra", func(s *limiter.Settings) { s.Algorithm, s.MaxDelay = limiter.GCRA, &second }, ""},
		{"a queue on a window", func(s *limiter.Settings) { s.Algorithm, s.MaxDelay = limiter.FixedWindow, &second }, "MaxDelay: fixed_window has none; only token_bucket"},
		{"a negative queue", func(s *limiter.Settings) { s.MaxDelay = &negative }, "MaxDelay"},
		{"numbers for microseconds", func(s *limiter.Settings) { s.Limit, s.Window = 52_000, 24*time.Hour }, ""},
		{"numbers for milliseconds", func(s *limiter.Settings) { s.Limit, s.Window = 53_000, 24*time.Hour }, ""},
		{"numbers beyond milliseconds", func(s *limiter.Settings) { s.Limit, s.Window = 52_124_996, 24*time.Hour }, "such as window day, may be up to 2^52"},
		{"numbers beyond 64 bits", func(s *limiter.Settings) { s.Limit = 1 << 62 }, "use at most 75059993789"},
		{"milliseconds and a window that has none", func(s *limiter.Settings) { s.Limit, s.Window = 1e9, 10*time.Second+time.Microsecond }, "whole milliseconds"},
		{"a burst of centuries", func(s *limiter.Settings) { s.Limit, s.Window, s.Burst = 1, 24*time.Hour, 51_000_000 }, "142 years"},
		{"a window of centuries", func(s *limiter.Settings) { s.Window, s.Burst = 100_000*24*time.Hour, 0 }, "Window 2400000h0m0s: must be below"},
		{"a window too long for its burst", func(s *limiter.Settings) { s.Limit, s.Window, s.Burst = 10, 100_000*24*time.Hour, 6 }, "Burst: the time to earn it"},
		{"a log beyond its running total", func(s *limiter.Settings) {
			s.Algorithm, s.Limit, s.Window = limiter.SlidingWindowLog, 1<<39+1, time.Millisecond
		}, "counts up to"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := good
			test.with(&s)
			wantError(t, s, test.wants)
		})
	}
}

// wantError wants settings to be refused by an error with a text, and to be accepted if that is empty.
func wantError(t *testing.T, s limiter.Settings, text string) {
	t.Helper()
	p, err := limiter.NewPolicy(s)
	assert.ErrorIf(t, (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), text),
		"got policy %v, error %v; want an error about %q", p, err, text)
}

func TestPolicy_ID(t *testing.T) {
	tests := map[string]limiter.Settings{
		"p:c1m":      {Name: "p", Algorithm: limiter.SlidingWindowCounter, Limit: 5, Window: time.Minute},
		"p:l90s":     {Name: "p", Algorithm: limiter.SlidingWindowLog, Limit: 5, Window: 90 * time.Second},
		"p:f1d":      {Name: "p", Algorithm: limiter.FixedWindow, Limit: 5, Window: 24 * time.Hour},
		"p:t1500us":  {Name: "p", Algorithm: limiter.TokenBucket, Limit: 5, Window: 1500 * time.Microsecond},
		"p:k250ms":   {Name: "p", Algorithm: limiter.LeakyBucket, Limit: 5, Window: 250 * time.Millisecond},
		"p:g1d-ms":   {Name: "p", Algorithm: limiter.GCRA, Limit: 100_000, Window: 24 * time.Hour},
		"api_2:c36h": {Name: "api_2", Algorithm: limiter.SlidingWindowCounter, Limit: 5, Window: 36 * time.Hour},
	}
	for want, settings := range tests {
		assert.Equal(t, storetest.NewPolicy(t, settings).ID, want, "%v", settings)
	}
}

// TestPolicy_WithLimit_unit has limits on both sides of the bound between microseconds and milliseconds.
func TestPolicy_WithLimit_unit(t *testing.T) {
	for _, limit := range []int64{100, 1_000_000} { // of a day
		p := storetest.DayPolicy(t, "unit", limiter.TokenBucket, limit)
		largest := p.LargestLimit()
		for _, other := range []int64{1, limit, largest} {
			q, err := p.WithLimit(other, 0)
			assert.ErrorIf(t, err != nil || q.ID != p.ID || q.Capacity() != other,
				"limit %d of a policy with %d: %v", other, limit, err)
			if q, err = p.WithLimit(limit, other); err != nil || q.ID != p.ID {
				t.Errorf("burst %d of a policy with %d: %v", other, limit, err)
			}
		}
		for _, other := range []int64{0, -1, largest + 1, 1 << 62} {
			_, err := p.WithLimit(other, 0)
			assert.ErrorIf(t, err == nil, "limit %d of a policy with %d is possible", other, limit)
		}
	}
	got := storetest.DayPolicy(t, "unit", limiter.SlidingWindowLog, 100).LargestLimit()
	assert.ErrorIf(t, got < 1000 || got > 1_000_000_000, "the largest limit of a log is %d", got)
}

// TestNewPolicy_lease refuses what leases exclude.
func TestNewPolicy_lease(t *testing.T) {
	second := time.Second
	for _, test := range []struct {
		name     string
		settings limiter.Settings
		wants    string // part of the error; empty: valid
	}{
		{"the shortest", limiter.Settings{Lease: limiter.MinLease}, ""},
		{"the longest", limiter.Settings{Lease: limiter.MaxLease}, ""},
		{"too short", limiter.Settings{Lease: limiter.MinLease - 1}, "Lease 4.999999ms: use a duration from 5ms to 1s"},
		{"too long", limiter.Settings{Lease: limiter.MaxLease + 1}, "Lease 1.000000001s: use a duration from 5ms to 1s"},
		{"negative", limiter.Settings{Lease: -limiter.MinLease}, "Lease -5ms: use a duration from 5ms to 1s"},
		{"calendar periods", limiter.Settings{Lease: limiter.MaxLease, Window: 0, Algorithm: limiter.FixedWindow, Calendar: "month"}, "Lease, Window month: "},
		{"a queue", limiter.Settings{Lease: limiter.MaxLease, Algorithm: limiter.LeakyBucket, MaxDelay: &second}, "Lease, MaxDelay: "},
		{"a bucket with limits of requests", limiter.Settings{Lease: limiter.MaxLease, Algorithm: limiter.GCRA, Dynamic: true}, "Lease, Algorithm gcra: "},
		{"a window with limits of requests", limiter.Settings{Lease: limiter.MaxLease, Dynamic: true}, ""},
		{"bans", limiter.Settings{Lease: limiter.MaxLease, Ban: []time.Duration{time.Minute}}, "Lease, Ban: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := test.settings
			s.Name, s.Limit = "p", 1000
			if s.Calendar == "" {
				s.Window = time.Minute
			}
			wantError(t, s, test.wants)
		})
	}
	wantFieldError(t, limiter.Settings{Name: "p", Limit: 1000, Window: time.Minute, Lease: limiter.MaxLease, Refunds: true}, "Lease, Refunds")
	leasing := storetest.NewPolicy(t, limiter.Settings{Name: "p", Limit: 1000, Window: time.Minute, Lease: limiter.MaxLease})
	other, err := leasing.WithLimit(10, 0)
	assert.ErrorIf(t, err != nil || other.LongestLease() != leasing.LongestLease(),
		"a window with another limit leases for %v, error %v; want %v", other.LongestLease(), err, leasing.LongestLease())
}

// TestPolicy_LongestLease bounds the longest lease by what it costs.
func TestPolicy_LongestLease(t *testing.T) {
	for _, test := range []struct {
		settings limiter.Settings
		want     time.Duration
	}{
		{limiter.Settings{Algorithm: limiter.FixedWindow, Window: time.Minute}, 600 * time.Millisecond},
		{limiter.Settings{Algorithm: limiter.FixedWindow, Window: time.Hour}, time.Second},
		{limiter.Settings{Algorithm: limiter.FixedWindow, Window: time.Minute, Lease: 20 * time.Millisecond}, 20 * time.Millisecond},
		{limiter.Settings{Algorithm: limiter.SlidingWindowCounter, Window: 500 * time.Millisecond}, 5 * time.Millisecond},
		{limiter.Settings{Algorithm: limiter.SlidingWindowCounter, Window: 499 * time.Millisecond}, 0},
		{limiter.Settings{Algorithm: limiter.SlidingWindowLog, Window: time.Minute}, 300 * time.Millisecond},
		{limiter.Settings{Algorithm: limiter.SlidingWindowLog, Window: time.Second}, 5 * time.Millisecond},
		{limiter.Settings{Algorithm: limiter.SlidingWindowLog, Window: 999 * time.Millisecond}, 0},
		{limiter.Settings{Algorithm: limiter.GCRA, Window: time.Minute}, 600 * time.Millisecond},
		{limiter.Settings{Algorithm: limiter.GCRA, Window: time.Minute, Burst: 100}, 60 * time.Millisecond},
		{limiter.Settings{Algorithm: limiter.TokenBucket, Window: time.Minute, Burst: 8}, 0},
		{limiter.Settings{Algorithm: limiter.LeakyBucket, Window: time.Second, Burst: 10_000}, 10 * time.Millisecond},
	} {
		s := test.settings
		s.Name, s.Limit = "p", 1000
		if s.Lease == 0 {
			s.Lease = limiter.MaxLease
		}
		assert.Equal(t, storetest.NewPolicy(t, s).LongestLease(), test.want, "%v: leases last for", s)
	}
	got := storetest.NewPolicy(t, limiter.Settings{Name: "p", Limit: 1000, Window: time.Minute}).LongestLease()
	assert.ErrorIf(t, got != 0, "without leases they last for %v", got)
}

// wantFieldError wants settings to be refused for a field.
func wantFieldError(t *testing.T, s limiter.Settings, want string) {
	t.Helper()
	_, err := limiter.NewPolicy(s)
	var field *limiter.FieldError
	assert.ErrorIf(t, !errors.As(err, &field) || field.Field != want, "%+v: %v; want an error about %s", s, err, want)
}

func TestSettings_concurrency(t *testing.T) {
	delay := time.Second
	for _, c := range []struct {
		field string
		s     limiter.Settings
	}{
		{"Limit, MaxConcurrent", limiter.Settings{Limit: 5}},
		{"Window, MaxConcurrent", limiter.Settings{Window: time.Minute}},
		{"Window, MaxConcurrent", limiter.Settings{Calendar: "month"}},
		{"Location, MaxConcurrent", limiter.Settings{Location: time.UTC}},
		{"Algorithm, MaxConcurrent", limiter.Settings{Algorithm: limiter.FixedWindow}},
		{"Burst, MaxConcurrent", limiter.Settings{Burst: 5}},
		{"MaxDelay, MaxConcurrent", limiter.Settings{MaxDelay: &delay}},
		{"Ban, MaxConcurrent", limiter.Settings{Ban: []time.Duration{time.Minute}}},
		{"Ban, MaxConcurrent", limiter.Settings{BanAfter: 3}},
		{"Lease, MaxConcurrent", limiter.Settings{Lease: limiter.MaxLease}},
		{"Refunds, MaxConcurrent", limiter.Settings{Refunds: true}},
		{"NodeTimeout", limiter.Settings{NodeTimeout: 4 * time.Second}},
		{"NodeTimeout", limiter.Settings{NodeTimeout: 11 * time.Minute}},
		{"NodeTimeout", limiter.Settings{NodeTimeout: 6*time.Second + 1}},
		{"NodeTimeout", limiter.Settings{NodeTimeout: -time.Second}},
		{"MaxConcurrent", limiter.Settings{MaxConcurrent: limiter.MaxRunning + 1}},
		{"MaxConcurrent", limiter.Settings{MaxConcurrent: -1}},
	} {
		s := c.s
		s.Name, s.MaxConcurrent = "p", cmp.Or(s.MaxConcurrent, 10)
		wantFieldError(t, s, c.field)
	}
	wantFieldError(t, limiter.Settings{Name: "p", Limit: 5, Window: time.Minute, NodeTimeout: time.Minute}, "NodeTimeout, MaxConcurrent")
	wantFieldError(t, limiter.Settings{Name: "p", Limit: 5, Window: time.Minute, Algorithm: "concurrency"}, "Algorithm")
	p := storetest.ConcurrencyPolicy(t, 5)
	assert.ErrorIf(t, p.ID != "running:n15s" || !p.CountsRunning || p.Capacity() != 5 || p.LargestLimit() != limiter.MaxRunning,
		"%s, largest limit %d", p.ID, p.LargestLimit())
	same := limiter.Settings{Name: "running", MaxConcurrent: 5}
	assert.ErrorIf(t, !p.Settings.Equal(same) || !same.Equal(p.Settings), "the default makes settings differ")
	text := same.String()
	assert.ErrorIf(t, text != "max_concurrent 5, node_timeout 15s", "%+v", text)
	s := p.Settings
	assert.ErrorIf(t, s.Limit != 0 || s.Algorithm != "" || p.Limit() != 5, "%+v, limit %d", s, p.Limit())
	other, err := p.WithLimit(limiter.MaxRunning, 0)
	assert.ErrorIf(t, err != nil || other.ID != p.ID, "%+v", err)
}

func TestSettings_bans(t *testing.T) {
	t.Parallel()
	ladder := func(durations ...time.Duration) limiter.Settings { return limiter.Settings{Ban: durations} }
	after := func(denials int) limiter.Settings {
		return limiter.Settings{Ban: []time.Duration{time.Minute}, BanAfter: denials}
	}
	for _, c := range []struct {
		field string
		s     limiter.Settings
	}{
		{"BanAfter", limiter.Settings{BanAfter: 3}}, {"BanAfter", after(-1)}, {"BanAfter", after(limiter.MaxBanAfter + 1)},
		{"Ban", ladder(make([]time.Duration, limiter.MaxBans+1)...)}, {"Ban", ladder(limiter.MinBan - 1)}, {"Ban", ladder(limiter.MaxBan + time.Second)},
		{"Ban", ladder(limiter.MinBan + 1)}, {"Ban", ladder(time.Hour, time.Minute)},
	} {
		s := c.s
		s.Name, s.Limit, s.Window = "p", 5, time.Minute
		wantFieldError(t, s, c.field)
	}
	s := ladder(time.Minute, time.Hour)
	s.Name, s.Limit, s.Window, s.Algorithm, s.MaxDelay = "p", 5, time.Minute, limiter.GCRA, new(time.Second)
	p := storetest.NewPolicy(t, s)
	assert.ErrorIf(t, !p.Bans(), "%v bans no client", s)
	assert.Equal(t, p.Settings.String(), "limit 5, window 1m0s, algorithm gcra, max_delay 1s, ban [1m0s 1h0m0s] after 1", "the text")
}

func TestCalendar_settings(t *testing.T) {
	const unknown = `: use one of [day week month year], or one with where it begins, such as day@06:00, week@wednesday or month@15`
	berlin := storetest.Zone(t, "Europe/Berlin")
	for want, s := range map[string]limiter.Settings{
		`Calendar "decade"` + unknown:   {Calendar: "decade"},
		`Calendar "month@32"` + unknown: {Calendar: "month@32"},
		`Calendar "hour@5"` + unknown:   {Calendar: "hour@5"},
		`Algorithm gcra: calendar periods are counted by fixed_window alone; leave the algorithm out`:       {Calendar: "day", Algorithm: limiter.GCRA},
		`Window 1h0m0s: a calendar period is a window of its own; leave one of them out`:                    {Calendar: "day", Window: time.Hour},
		`Location Local: nodes may differ in it; name a time zone such as Europe/Berlin`:                    {Calendar: "day", Location: time.Local},
		`Location Europe/Berlin: only calendar periods have a time zone; set Calendar too, or leave it out`: {Location: berlin, Window: time.Hour},
		`Limit 4503599627370497: use a number up to 2^52`:                                                   {Calendar: "day", Limit: limiter.MaxCharge + 1},
		`Burst: fixed_window has none; only token_bucket, leaky_bucket and gcra do`:                         {Calendar: "day", Burst: 5},
		`MaxDelay: fixed_window has none; only token_bucket, leaky_bucket and gcra do`:                      {Calendar: "day", MaxDelay: new(time.Duration)},
	} {
		s.Name, s.Limit = "p", max(1, s.Limit)
		_, err := limiter.NewPolicy(s)
		assert.ErrorIf(t, err == nil || err.Error() != want, "got  %v\nwant %s", err, want)
	}
	for code, unit := range map[string]string{
		"p1d": "day", "p7d": "week", "p31d": "month", "p366d": "year", "p1d@0600": "day@06:00", "p7d@3": "week@wednesday", "p31d@31": "month@31",
	} {
		p := storetest.NewPolicy(t, limiter.Settings{Calendar: unit, Location: berlin, Limit: 5, Dynamic: true})
		assert.ErrorIf(t, p.ID != "p:"+code || !redis.CodePattern.MatchString(code), "%s: %s", unit, p.ID)
		assert.Equal(t, p.LargestLimit(), limiter.MaxCharge, "the largest limit per %s", unit)
		s := p.Settings
		again := s
		again.Location = storetest.Zone(t, "Europe/Berlin")
		period, _, _ := strings.Cut(unit, "@")
		assert.ErrorIf(t, !s.Equal(again) || s.Window != time.Duration(kernel.Unit(period).Days())*24*time.Hour,
			"%v, %v", s, again)
		if again.Calendar = period; s.Equal(again) != (period == unit) {
			t.Errorf("%v, %v", s, again)
		}
		if again.Location = time.UTC; s.Equal(again) {
			t.Errorf("%v equals %v", s, again)
		}
		want := "limit 5, window " + unit + " Europe/Berlin, algorithm fixed_window"
		assert.ErrorIf(t, s.String() != want, "%s, want %s", s, want)
	}
}

func TestSettings_refunding_queue(t *testing.T) {
	t.Parallel()
	wantFieldError(t, limiter.Settings{Name: "queue", Algorithm: limiter.LeakyBucket, Limit: 1, Window: time.Second, MaxDelay: new(time.Second), Refunds: true}, "MaxDelay, Refunds")
}

// TestNewPolicy_names_the_largest_limit reads the number in the error of a limit that is too large: it is possible, and
// one more is not.
func TestNewPolicy_names_the_largest_limit(t *testing.T) {
	for _, window := range []time.Duration{time.Millisecond, 7 * time.Millisecond, time.Second, time.Hour, 24 * time.Hour, 365 * 24 * time.Hour} {
		s := limiter.Settings{Name: "p", Algorithm: limiter.FixedWindow, Limit: math.MaxInt64, Window: window}
		_, err := limiter.NewPolicy(s)
		assert.FatalIf(t, err == nil, "a limit of 2^63-1 per %v is accepted", window)
		_, rest, _ := strings.Cut(err.Error(), "use at most ")
		_, scanned := fmt.Sscan(rest, &s.Limit)
		assert.FatalIf(t, scanned != nil, "the error of a window of %v names no number: %v", window, err)
		wantError(t, s, "")
		s.Limit++
		wantError(t, s, "use at most "+strconv.FormatInt(s.Limit-1, 10)+" with")
	}
}
