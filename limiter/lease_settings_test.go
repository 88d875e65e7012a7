package limiter

import (
	"strings"
	"testing"
	"time"
)

// TestNewPolicy_lease refuses what leases exclude.
func TestNewPolicy_lease(t *testing.T) {
	second := time.Second
	for _, test := range []struct {
		name     string
		settings Settings
		wants    string // part of the error; empty: valid
	}{
		{"the shortest", Settings{Lease: MinLease}, ""},
		{"the longest", Settings{Lease: MaxLease}, ""},
		{"too short", Settings{Lease: MinLease - 1}, "from 5ms to 1s"},
		{"too long", Settings{Lease: MaxLease + 1}, "from 5ms to 1s"},
		{"negative", Settings{Lease: -MinLease}, "from 5ms to 1s"},
		{"calendar periods", Settings{Lease: MaxLease, Window: 0, Algorithm: FixedWindow, Calendar: "month"}, "Lease, Window month: "},
		{"a queue", Settings{Lease: MaxLease, Algorithm: LeakyBucket, MaxDelay: &second}, "Lease, MaxDelay: "},
		{"a bucket with limits of requests", Settings{Lease: MaxLease, Algorithm: GCRA, Dynamic: true}, "Lease, Algorithm gcra: "},
		{"a window with limits of requests", Settings{Lease: MaxLease, Dynamic: true}, ""},
		{"bans", Settings{Lease: MaxLease, Ban: []time.Duration{time.Minute}}, "Lease, Ban: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := test.settings
			s.Name, s.Limit = "p", 1000
			if s.Calendar == "" {
				s.Window = time.Minute
			}
			p, err := NewPolicy(s)
			switch {
			case test.wants == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.wants != "" && (err == nil || !strings.Contains(err.Error(), "Lease") || !strings.Contains(err.Error(), test.wants)):
				t.Errorf("got policy %v, error %v; want an error about Lease and %q", p, err, test.wants)
			}
		})
	}
	leasing := mustPolicy(t, Settings{Name: "p", Limit: 1000, Window: time.Minute, Lease: MaxLease})
	if err := leasing.AllowRefunds(); err == nil {
		t.Error("units of leases may be refunded to single requests")
	}
	other, err := leasing.WithLimit(10, 0)
	if err != nil || other.LongestLease() != leasing.LongestLease() {
		t.Errorf("a window with another limit leases for %v, error %v; want %v", other.LongestLease(), err, leasing.LongestLease())
	}
}

// TestPolicy_LongestLease bounds the longest lease by what it costs.
func TestPolicy_LongestLease(t *testing.T) {
	for _, test := range []struct {
		settings Settings
		want     time.Duration
	}{
		{Settings{Algorithm: FixedWindow, Window: time.Minute}, 600 * time.Millisecond},
		{Settings{Algorithm: FixedWindow, Window: time.Hour}, time.Second},
		{Settings{Algorithm: FixedWindow, Window: time.Minute, Lease: 20 * time.Millisecond}, 20 * time.Millisecond},
		{Settings{Algorithm: SlidingWindowCounter, Window: 500 * time.Millisecond}, 5 * time.Millisecond},
		{Settings{Algorithm: SlidingWindowCounter, Window: 499 * time.Millisecond}, 0},
		{Settings{Algorithm: SlidingWindowLog, Window: time.Minute}, 300 * time.Millisecond},
		{Settings{Algorithm: SlidingWindowLog, Window: time.Second}, 5 * time.Millisecond},
		{Settings{Algorithm: SlidingWindowLog, Window: 999 * time.Millisecond}, 0},
		{Settings{Algorithm: GCRA, Window: time.Minute}, 600 * time.Millisecond},
		{Settings{Algorithm: GCRA, Window: time.Minute, Burst: 100}, 60 * time.Millisecond},
		{Settings{Algorithm: TokenBucket, Window: time.Minute, Burst: 8}, 0},
		{Settings{Algorithm: LeakyBucket, Window: time.Second, Burst: 10_000}, 10 * time.Millisecond},
	} {
		s := test.settings
		s.Name, s.Limit = "p", 1000
		if s.Lease == 0 {
			s.Lease = MaxLease
		}
		if got := mustPolicy(t, s).LongestLease(); got != test.want {
			t.Errorf("%v: leases last for %v; want %v", s, got, test.want)
		}
	}
	if got := mustPolicy(t, Settings{Name: "p", Limit: 1000, Window: time.Minute}).LongestLease(); got != 0 {
		t.Errorf("without leases they last for %v", got)
	}
}
