package rule

import (
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// TestVariants_with_together has many requests bring the same new limit at once. All get one policy: leases and
// denials are of a policy.
func TestVariants_with_together(t *testing.T) {
	base, err := limiter.NewPolicy(limiter.Settings{Name: "plans", Algorithm: limiter.GCRA, Limit: 1, Window: time.Minute, Dynamic: true})
	redistest.Must(t, err)
	v := NewVariants(base)
	for limit := int64(2); limit < 1000; limit++ {
		var policies [8]*limiter.Policy
		var requests sync.WaitGroup
		for i := range policies {
			requests.Go(func() { policies[i], _ = v.with(limit, 0) })
		}
		requests.Wait()
		for _, p := range policies {
			redistest.FatalIf(t, p == nil || p != policies[0], "two policies of limit %d", limit)
		}
	}
}

// TestParseCost_factors refuses sums and placeholders of factors that cannot be, by the words of the option.
func TestParseCost_factors(t *testing.T) {
	cost, err := ParseCost("json {price_in}*a-{http.request.header.X-Price}*b+0.5*c", 7)
	if err != nil || len(cost.prices) != 2 || cost.prices[0].Name != "price_in" || cost.prices[1].field.kind != headerField {
		t.Errorf("got %+v, %v", cost, err)
	}
	for from, want := range map[string]string{
		"json a*2":                  `cost json a*2: "a" is no factor`,
		"json {}*a":                 "cost {}: use one placeholder",
		"json {header.X}*a":         "in JSON write {http.request.header.X}",
		"json {a}*b+{http.x.{y}}*c": `"{http.x.{y}}" is no factor`,
	} {
		if _, err := ParseCost(from, 7); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one with %q", from, err, want)
		}
	}
}

// reservePolicy is a window of that capacity.
func reservePolicy(t *testing.T, capacity int64) *limiter.Policy {
	t.Helper()
	p, err := limiter.NewPolicy(limiter.Settings{Name: "p", Limit: capacity, Window: time.Second})
	redistest.Must(t, err)
	return p
}

func TestReserve_Of(t *testing.T) {
	for _, c := range []struct {
		text           string
		capacity, want int64
	}{
		{"", 100, 0}, {"0", 100, 0}, {"0%", 100, 0}, {"20", 100, 20}, {"20%", 100, 20}, {"20%", 99, 20}, {"1%", 1000, 10}, {"1%", 10, 1},
		{"1%", 2, 1}, {"1%", 1, 0}, {"99%", 10, 9}, {"99%", 100, 99}, {"50", 50, 49}, {"50", 1, 0}, {"9223372036854775807", 10, 9}, {"99%", 1 << 32, 4252017624},
	} {
		reserve, err := ParseReserve(c.text)
		if got := reserve.Of(reservePolicy(t, c.capacity)); err != nil || got != c.want {
			t.Errorf("reserve %q of %d is %d, %v; want %d", c.text, c.capacity, got, err, c.want)
		}
	}
	none := reservePolicy(t, 10).None()
	if got := (Reserve{Percent: 50}).Of(none); got > 0 {
		t.Errorf("leaves %d of a limit of 0", got)
	}
}

func TestParseReserve_errors(t *testing.T) {
	for _, text := range []string{"%", "-1", "+1", "1.5", "1e3", "20 %", "20%%", "%20", "0x10", "100%", "1_000", "9223372036854775808", "18446744073709551616%", "{http.vars.reserve}"} {
		if reserve, err := ParseReserve(text); err == nil || !strings.Contains(err.Error(), "use") {
			t.Errorf("reserve %q is %+v, %v; want an error that says what to write", text, reserve, err)
		}
	}
}

func TestReserve_Check(t *testing.T) {
	for _, c := range []struct {
		text             string
		capacity, weight int64
		dynamic, ok      bool
	}{
		{"99", 100, 1, false, true}, {"100", 100, 1, false, false}, {"100", 100, 1, true, true}, {"50", 100, 50, false, true}, {"51", 100, 50, false, false},
		{"99%", 10, 1, false, true}, {"99%", 10, 2, false, false}, {"1", 1, 1, false, false}, {"1", 1, 1, true, false}, {"", 1, 1, false, true}, {"0", 1, 1, false, true},
		{"1", 100, 100, false, false}, {"99", 100, math.MaxInt64, false, false},
	} {
		reserve, err := ParseReserve(c.text)
		redistest.Must(t, err)
		if err := reserve.Check(reservePolicy(t, c.capacity), c.weight, c.dynamic); (err == nil) != c.ok {
			t.Errorf("reserve %s of %d with weight %d: %v", c.text, c.capacity, c.weight, err)
		}
	}
}
