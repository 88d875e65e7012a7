package policystats

import (
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/heavyhitters"
)

// TestNames_with_counts removes a policy whose client has used it up, and adds it again: its client is
// still denied, and its series go on. They are dropped when both its counts and its denials are over.
func TestNames_with_counts(t *testing.T) {
	now, living := time.Now(), map[string]bool{}
	names := New(func() map[string]bool { return living }, func() time.Time { return now })
	defer names.End()
	first := names.Use("p")
	living["p"] = true
	first.Top.Add("k")
	names.Release([]*Policy{first})
	second := names.Use("p")
	if first != second || second.dropped {
		t.Error("a name that came back with counts begins anew")
	}
	names.Release([]*Policy{second})
	clear(living)
	names.prune()
	if names.known["p"] == nil || names.look == nil {
		t.Error("the name was dropped with its denials, or is not looked after")
	}
	now = now.Add(2 * heavyhitters.Period)
	names.prune()
	if names.known["p"] != nil || names.look != nil {
		t.Error("the name is kept after its counts have ended")
	}
	third := names.Use("p")
	if third == second {
		t.Error("a name that came back without counts goes on")
	}
	names.Release([]*Policy{third})
}
