package failover

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/wire"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/scripts"
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
		{"numbers beyond milliseconds", func(s *limiter.Settings) { s.Limit, s.Window = 53_000_000, 24*time.Hour }, "2^53"},
		{"numbers beyond 64 bits", func(s *limiter.Settings) { s.Limit = 1 << 62 }, "2^53"},
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
			p, err := limiter.NewPolicy(s)
			switch {
			case test.wants == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.wants != "" && (err == nil || !strings.Contains(err.Error(), test.wants)):
				t.Errorf("got policy %v, error %v; want an error about %q", p, err, test.wants)
			}
		})
	}
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
		if got := storetest.NewPolicy(t, settings).ID(); got != want {
			t.Errorf("%v: got %s, want %s", settings, got, want)
		}
	}
}

// TestRegistry_scripts holds the registry against the files of scripts/.
func TestRegistry_scripts(t *testing.T) {
	files, err := os.ReadDir("../../scripts")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		name, isLua := strings.CutSuffix(file.Name(), ".lua")
		if isLua && !slices.Contains([]string{"clock", "prelude", "kernels", "lease", "ban", "batch", "takes"}, name) {
			found = append(found, name)
		}
	}
	want := slices.Clone(wire.KernelNames)
	for i, name := range wire.KernelNames {
		if scripts.HasTakes(name) {
			want = append(want, name+"_changes", name+"_takes")
		}
		if wire.Leasing&(1<<i) != 0 {
			want = append(want, name+"_lease")
		}
	}
	slices.Sort(want)
	if fmt.Sprint(found) != fmt.Sprint(want) {
		t.Errorf("scripts/ has %v, the registry %v", found, want)
	}
	if kernel.Registry[0].Name != limiter.DefaultAlgorithm {
		t.Errorf("the registry begins with %s, not with the default", kernel.Registry[0].Name)
	}
}

// TestPolicy_WithLimit_unit has limits on both sides of the bound between microseconds and milliseconds.
func TestPolicy_WithLimit_unit(t *testing.T) {
	for _, limit := range []int64{100, 1_000_000} { // of a day
		p := storetest.DayPolicy(t, "unit", limiter.TokenBucket, limit)
		largest := p.LargestLimit()
		for _, other := range []int64{1, limit, largest} {
			q, err := p.WithLimit(other, 0)
			if err != nil || q.ID() != p.ID() || q.Capacity() != other {
				t.Errorf("limit %d of a policy with %d: %v", other, limit, err)
			}
			if q, err = p.WithLimit(limit, other); err != nil || q.ID() != p.ID() {
				t.Errorf("burst %d of a policy with %d: %v", other, limit, err)
			}
		}
		for _, other := range []int64{0, -1, largest + 1, 1 << 62} {
			if _, err := p.WithLimit(other, 0); err == nil {
				t.Errorf("limit %d of a policy with %d is possible", other, limit)
			}
		}
	}
	if got := storetest.DayPolicy(t, "unit", limiter.SlidingWindowLog, 100).LargestLimit(); got < 1000 || got > 1_000_000_000 {
		t.Errorf("the largest limit of a log is %d", got)
	}
}
