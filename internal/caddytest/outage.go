package caddytest

import (
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

const (
	// Slack bounds the delay of a busy machine of two cores, besides its stalls. On an idle one the
	// delay is below 20ms.
	Slack = 150 * time.Millisecond

	// RequestPace is the least time from one request of a client to its next under load. Without it the
	// load would use all of a small machine, and responses would be slow without a fault of Redis.
	RequestPace = 2 * time.Millisecond
)

// WaitForRedis sends requests until Redis decides.
func WaitForRedis(t testing.TB, n *Node, path string) {
	t.Helper()
	assert.Retry(t, "Redis decides", func() (again bool, seen any) {
		a := n.Get(t, path)
		return a.Body != "allowed redis", a
	})
}

// CheckOutageLog checks for one line at the beginning of the outage and one at its end.
func CheckOutageLog(t testing.TB, n *Node) {
	t.Helper()
	assert.Retry(t, "the log has the recovery", func() (again bool, seen any) {
		return len(n.Log.Recoveries()) == 0, n.Log.Lines(Ours)
	})
	if begun, ended := n.Log.Outages(), n.Log.Recoveries(); len(begun) != 1 || len(ended) != 1 ||
		!strings.HasPrefix(begun[0].Message, "redis cannot decide") {
		t.Errorf("the log has the outages %v and recoveries %v; want one each", begun, ended)
	}
}

// DecidedElsewhere sends requests of many clients at once and counts those that Redis did not decide.
func DecidedElsewhere(t *testing.T, n *Node, clients, each int) (elsewhere int) {
	t.Helper()
	for range each {
		for _, a := range n.Crowd(t, clients, "") {
			if a.Body != "allowed redis" {
				elsewhere++
			}
		}
	}
	return elsewhere
}
