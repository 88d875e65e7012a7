package failover

import (
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
)

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
		{"too short", limiter.Settings{Lease: limiter.MinLease - 1}, "from 5ms to 1s"},
		{"too long", limiter.Settings{Lease: limiter.MaxLease + 1}, "from 5ms to 1s"},
		{"negative", limiter.Settings{Lease: -limiter.MinLease}, "from 5ms to 1s"},
		{"calendar periods", limiter.Settings{Lease: limiter.MaxLease, Window: 0, Algorithm: limiter.FixedWindow, Calendar: "month"}, "Lease, Window month: "},
		{"a queue", limiter.Settings{Lease: limiter.MaxLease, Algorithm: limiter.LeakyBucket, MaxDelay: &second}, "Lease, MaxDelay: "},
		{"a bucket with limits of requests", limiter.Settings{Lease: limiter.MaxLease, Algorithm: limiter.GCRA, Dynamic: true}, "Lease, Algorithm gcra: "},
		{"a window with limits of requests", limiter.Settings{Lease: limiter.MaxLease, Dynamic: true}, ""},
		{"refunds to single requests", limiter.Settings{Lease: limiter.MaxLease, Refunds: true}, "Lease, Refunds: "},
		{"bans", limiter.Settings{Lease: limiter.MaxLease, Ban: []time.Duration{time.Minute}}, "Lease, Ban: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := test.settings
			s.Name, s.Limit = "p", 1000
			if s.Calendar == "" {
				s.Window = time.Minute
			}
			p, err := limiter.NewPolicy(s)
			switch {
			case test.wants == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.wants != "" && (err == nil || !strings.Contains(err.Error(), "Lease") || !strings.Contains(err.Error(), test.wants)):
				t.Errorf("got policy %v, error %v; want an error about Lease and %q", p, err, test.wants)
			}
		})
	}
	leasing := storetest.NewPolicy(t, limiter.Settings{Name: "p", Limit: 1000, Window: time.Minute, Lease: limiter.MaxLease})
	other, err := leasing.WithLimit(10, 0)
	if err != nil || other.LongestLease() != leasing.LongestLease() {
		t.Errorf("a window with another limit leases for %v, error %v; want %v", other.LongestLease(), err, leasing.LongestLease())
	}
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
		if got := storetest.NewPolicy(t, s).LongestLease(); got != test.want {
			t.Errorf("%v: leases last for %v; want %v", s, got, test.want)
		}
	}
	if got := storetest.NewPolicy(t, limiter.Settings{Name: "p", Limit: 1000, Window: time.Minute}).LongestLease(); got != 0 {
		t.Errorf("without leases they last for %v", got)
	}
}
