package limiter_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

func TestPrepare(t *testing.T) {
	p := storetest.NewPolicy(t, limiter.Settings{Name: "p", Limit: 10, Window: time.Hour})
	larger := assert.NoError(p.WithLimit(20, 0))(t)
	other := storetest.NewPolicy(t, limiter.Settings{Name: "other", Limit: 10, Window: time.Hour})
	key := limiter.EncodeKey("k")
	many := make([]limiter.Check, 40)
	for i := range many {
		many[i] = limiter.Check{Policy: p, Key: limiter.EncodeKey(strings.Repeat("k", i))}
	}
	for name, test := range map[string]struct {
		checks []limiter.Check
		want   string // in the error; empty: there is none
	}{
		"none":                         {nil, "there is none"},
		"one":                          {[]limiter.Check{{Policy: p, Key: key}}, ""},
		"no policy":                    {[]limiter.Check{{Policy: p, Key: key}, {Key: key}}, "number 1 has no Policy"},
		"an empty policy":              {[]limiter.Check{{Policy: new(limiter.Policy), Key: key}}, "number 0 has no Policy"},
		"a policy that refuses":        {[]limiter.Check{{Policy: p.None(), Key: key}}, "is refused"},
		"a negative weight":            {[]limiter.Check{{Policy: p, Key: key, Weight: -1}}, "Weight -1"},
		"a negative reserve":           {[]limiter.Check{{Policy: p, Key: key, Reserve: -2}}, "Reserve -2"},
		"two policies of one key":      {[]limiter.Check{{Policy: p, Key: key}, {Policy: other, Key: key}}, ""},
		"two limits of one quota":      {[]limiter.Check{{Policy: p, Key: key}, {Policy: other, Key: key}, {Policy: larger, Key: key}}, "numbers 0 and 2"},
		"many":                         {many, ""},
		"many, of which one is double": {append(many[:39:39], many[3]), "numbers 3 and 39"},
	} {
		kept := limiter.CheckState{DecidedAt: 7, RunningUnits: 2, Receipt: kernel.Receipt{First: 1}}
		for i := range test.checks {
			test.checks[i].State = kept
		}
		err := limiter.Prepare(test.checks)
		want := kept
		if test.want == "" {
			want = limiter.CheckState{}
			assert.Must(t, err)
		} else if !errors.Is(err, limiter.ErrInvalidCheck) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		for i := range test.checks {
			assert.Equal(t, test.checks[i].State, want, "%s: the state of check %d", name, i)
		}
	}
}

func TestEvaluate_running(t *testing.T) {
	p := storetest.NewPolicy(t, limiter.Settings{Name: "running", MaxConcurrent: 5})
	for _, test := range []struct{ running, weight, reserve, wait, remaining int64 }{
		{0, 1, 0, 0, 4},
		{4, 1, 0, 0, 0},
		{5, 1, 0, kernel.RunningHint, 0},
		{3, 2, 1, kernel.RunningHint, 2},
		{2, 2, 1, 0, 1},
		{0, 6, 0, -1, 5},
	} {
		c := limiter.Check{Policy: p, Weight: test.weight, Reserve: test.reserve}
		v := limiter.Evaluate(kernel.State{Numbers: kernel.Numbers{A: test.running}}, storetest.Epoch, &c)
		assert.ErrorIf(t, v.Wait != test.wait || v.Remaining != test.remaining, "%+v: %+v", test, v)
	}
}
