package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

func settingsChange(t *testing.T, open Open) {
	for _, algorithm := range limiter.Algorithms() {
		for _, s := range open(t) {
			t.Run(algorithm+"/"+s.Name, func(t *testing.T) {
				settings := limiter.Settings{Name: "live-" + algorithm, Algorithm: algorithm, Limit: 5, Window: time.Minute}
				for range 5 {
					s.Play(t, Epoch, NewPolicy(t, settings), 1)
				}
				settings.Limit = 3
				if r := s.Play(t, Epoch, NewPolicy(t, settings), 1); r.Passes() || r.Remaining != 0 {
					t.Errorf("lowered limit: %+v", r)
				}
				settings.Limit = 8
				if r := s.Play(t, Epoch, NewPolicy(t, settings), 1); !r.Passes() {
					t.Errorf("raised limit: %+v", r)
				}
				settings.Window = time.Hour
				if r := s.Play(t, Epoch, NewPolicy(t, settings), 1); !r.Passes() || r.Remaining != 7 {
					t.Errorf("changed window starts anew: %+v", r)
				}
			})
		}
	}
}

func statesStayApart(t *testing.T, open Open) {
	for _, s := range open(t) {
		s.SetClock(Epoch)
		p := NewPolicy(t, limiter.Settings{Name: "one", Algorithm: limiter.FixedWindow, Limit: 1, Window: time.Hour})
		other := NewPolicy(t, limiter.Settings{Name: "two", Algorithm: limiter.FixedWindow, Limit: 1, Window: time.Hour})
		checks := []limiter.Check{{Policy: other, Key: limiter.EncodeKey("a")}}
		for _, key := range []string{"a", "b", "", "%", "%25", "}", "}a", "{", "{}", "a\x00\n", strings.Repeat("a", 129), strings.Repeat("a", 130)} {
			checks = append(checks, limiter.Check{Policy: p, Key: limiter.EncodeKey(key)})
		}
		for i, c := range checks {
			for again := range 2 {
				if passes := Decide(t, s, c)[0].Result.Passes(); passes != (again == 0) {
					t.Errorf("%s, state %d, request %d: passes is %v", s.Name, i, again, passes)
				}
			}
		}
	}
}

func denialsChargeNothing(t *testing.T, open Open) {
	for _, algorithm := range limiter.Algorithms() {
		for _, s := range open(t) {
			s.SetClock(Epoch)
			small := NewPolicy(t, limiter.Settings{Name: "small-" + algorithm, Algorithm: algorithm, Limit: 1, Window: time.Hour})
			large := NewPolicy(t, limiter.Settings{Name: "large-" + algorithm, Algorithm: algorithm, Limit: 10, Window: time.Hour})
			var last []limiter.Check
			for range 5 {
				last = Decide(t, s, limiter.Check{Policy: large, Key: limiter.EncodeKey("k")}, limiter.Check{Policy: small, Key: limiter.EncodeKey("k")})
			}
			if got := last[0].Result; got.Remaining != 9 || !got.Passes() {
				t.Errorf("%s/%s: the large policy was charged by denied requests: %+v", s.Name, algorithm, got)
			}
			if last[1].Result.Passes() || limiter.Binding(last) != 1 {
				t.Errorf("%s/%s: the small policy must bind: %+v", s.Name, algorithm, last[1].Result)
			}
		}
	}
}
