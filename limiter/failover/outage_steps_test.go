package failover

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
)

// play plays the steps of an outage: "away" and "back", "at" so many milliseconds, "take" and "denied" so many units,
// "settle" an estimate of the outage to a cost, "charge" what a request of Redis cost and "owe" what one of the outage
// did, "reset" the key, "forget" all keys of the policy. "repaid" compares the units that were settled since the first
// step, and those that are left.
func (n *outageNode) play(t *testing.T, p *limiter.Policy, steps string) {
	t.Helper()
	n.settled.Store(0)
	words := strings.Fields(steps)
	number := func() int64 {
		t.Helper()
		words = words[1:]
		value, err := strconv.ParseInt(words[0], 10, 64)
		noError(t, err)
		return value
	}
	for ; len(words) > 0; words = words[1:] {
		var err error
		switch do := words[0]; do {
		case "away":
			n.away()
		case "back":
			n.back()
		case "at":
			n.set(storetest.Epoch + number()*1000)
		case "take", "denied":
			if units := number(); n.take(t, p, units) != (do == "take") {
				t.Errorf("%s: want %q %d before %q", p.Name(), do, units, words[1:])
			}
		case "settle":
			checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: number(), Refundable: true}}
			source := limiter.Source("")
			if source, err = n.Decide(t.Context(), checks); source != limiter.SourceFallback || !limiter.Allowed(checks) {
				t.Fatal(source, checks, err)
			}
			n.Settle(checks[0], number(), source)
		case "charge", "owe":
			source := map[string]limiter.Source{"charge": limiter.SourceRedis, "owe": limiter.SourceFallback}[do]
			chargeAll(n.Store, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: number()}}, source)
		case "reset":
			_, err = n.Reset(t.Context(), p, limiter.EncodeKey("k"))
		case "forget":
			_, err = n.ResetAll(t.Context(), p.Name())
		case "repaid":
			units := number()
			n.wantRepaid(t, p, units, number())
		default:
			err = errors.New("no such step")
		}
		if err != nil {
			t.Fatal(words, err)
		}
	}
}
