package returnable

import (
	"errors"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// TestUnits_waits has a request denied beside others of its quota, of which some have reserved.
func TestUnits_waits(t *testing.T) {
	t.Parallel()
	const minute = time.Minute
	denied := limiter.Result{RetryAfter: minute}
	for name, test := range map[string]struct {
		underWay []int64 // weights
		weight   int64
		leave    int64
		result   limiter.Result
		want     time.Duration
	}{
		"nothing under way":           {nil, 1, 0, denied, minute},
		"one unit under way":          {[]int64{1}, 1, 0, denied, Wait},
		"a soon one":                  {[]int64{1}, 1, 0, limiter.Result{RetryAfter: time.Millisecond}, time.Millisecond},
		"too heavy":                   {[]int64{1, 1}, 3, 0, denied, minute},
		"heavy":                       {[]int64{1, 2}, 3, 0, denied, Wait},
		"heavy, with what remains":    {[]int64{1}, 3, 0, limiter.Result{RetryAfter: minute, Remaining: 2}, Wait},
		"one that leaves too many":    {[]int64{1, 1}, 1, 2, denied, minute},
		"one that leaves some":        {[]int64{1, 1}, 1, 1, denied, Wait},
		"a ban":                       {[]int64{1}, 1, 0, limiter.Result{RetryAfter: minute, Banned: true}, minute},
		"one that never passes":       {[]int64{1}, 1, 0, limiter.Result{RetryAfter: limiter.Never}, limiter.Never},
		"one that was not looked up":  {[]int64{1}, 1, 0, limiter.Result{RetryAfter: minute, Remaining: limiter.Unknown}, Wait},
		"one that passes beside them": {[]int64{1}, 1, 0, limiter.Result{Remaining: 3}, 0},
	} {
		for _, reserve := range []bool{true, false} {
			u, p := New(), policy(t)
			check := func(weight int64, reserve bool) []limiter.Check {
				return []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: weight, Reserve: reserve}}
			}
			for _, weight := range test.underWay {
				others := check(weight, true)
				u.Decided(others, u.Begin(others), nil)
			}
			c := check(test.weight, reserve)
			begun := u.Begin(c)
			c[0].Leave, c[0].Result = test.leave, test.result
			if u.Decided(c, begun, nil); c[0].Result.RetryAfter != test.want {
				t.Errorf("%s, reserved %v: waits %v, want %v", name, reserve, c[0].Result.RetryAfter, test.want)
			}
		}
	}
}

// TestUnits_end has all units gone once their requests have ended, were denied, or were not decided.
func TestUnits_end(t *testing.T) {
	t.Parallel()
	u, p := New(), policy(t)
	check := func() []limiter.Check {
		return []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Reserve: true}}
	}
	passed, denied, undecided, late := check(), check(), check(), check()
	u.Decided(passed, u.Begin(passed), nil)
	begun := u.Begin(late)
	u.End(&passed[0]) // and what it returns may have come after the decision of late
	denied[0].Result = limiter.Result{RetryAfter: time.Hour}
	u.Decided(denied, u.Begin(denied), nil)
	u.Decided(undecided, u.Begin(undecided), errors.New("undecided"))
	late[0].Result = limiter.Result{RetryAfter: time.Hour}
	if u.Decided(late, begun, nil); late[0].Result.RetryAfter != Wait {
		t.Errorf("the last one waits %v; a unit came back while it was decided", late[0].Result.RetryAfter)
	}
	for i := range u.shards {
		if n := len(u.shards[i].units); n != 0 {
			t.Errorf("%d quotas are left", n)
		}
	}
}

func policy(t *testing.T) *limiter.Policy {
	t.Helper()
	p, err := limiter.NewPolicy(limiter.Settings{Name: "p", Limit: 10, Window: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
