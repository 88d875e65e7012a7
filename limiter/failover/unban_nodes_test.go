package failover

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/deny"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

// raised returns the policy with a limit that the clients of a test never reach, as an override does.
func raised(t *testing.T, p *limiter.Policy) *limiter.Policy {
	t.Helper()
	other, err := p.WithLimit(50, 0)
	noError(t, err)
	return other
}

// banOn has a client banned, and sees to it that a count denies it no more.
func banOn(t *testing.T, f *Store, p *limiter.Policy, key string) {
	t.Helper()
	for range 3 {
		oneOf(t, f, p, key)
	}
	if r, _ := oneOf(t, f, p, key); !r.Banned {
		t.Fatalf("%+v; want a ban", r)
	}
}

// TestFailover_Unban_elsewhere floods a node with a banned client while another node lifts the ban: the
// node lets it through, and an outage does not bring the ban back.
func TestFailover_Unban_elsewhere(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a := New(openRedis(t, server, 2*time.Second), memory.New(), Options{DenyAge: MaxDenyAge})
	b := New(openRedis(t, server, 2*time.Second), memory.New(), Options{DenyAge: MaxDenyAge})
	p := hourBan(t, "elsewhere", 1)
	banOn(t, a, p, "k")
	q := raised(t, p)
	if r, _ := oneOf(t, b, q, "k"); !r.Banned {
		t.Fatalf("%+v", r)
	}
	if _, err := a.Unban(t.Context(), p, limiter.EncodeKey("k")); err != nil {
		t.Fatal(err)
	}
	redistest.WaitFor(t, "the other node lets the client through", func() error {
		if r, source := oneOf(t, b, q, "k"); !r.Passes() {
			return fmt.Errorf("%+v from %s", r, source)
		}
		return nil
	})
	server.Kill()
	if r, source := oneOf(t, b, q, "k"); !r.Passes() || source != limiter.SourceFallback {
		t.Errorf("in an outage: %+v from %s", r, source)
	}
}

// TestFailover_Unban_refreshed has a node learn that a ban was lifted by a refresh of its deny cache alone:
// an outage that begins before the client's next request does not bring the ban back.
func TestFailover_Unban_refreshed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	f := New(openRedis(t, server, 2*time.Second), memory.New(), Options{DenyAge: MaxDenyAge})
	p := hourBan(t, "refreshed", 2)
	for range 2 {
		oneOf(t, f, p, "k")
	}
	banOn(t, f, p, "k")
	if _, err := f.shared.Unban(t.Context(), p, limiter.EncodeKey("k")); err != nil { // as another node
		t.Fatal(err)
	}
	shard := f.denied.ShardOf("k")
	redistest.WaitFor(t, "the ban leaves the deny cache", func() error {
		shard.Mu.Lock()
		d, found := shard.Denials[deny.Key{Policy: p, Key: "k", Weight: deny.AnyWeight, Reserve: 0}]
		shard.Mu.Unlock()
		switch {
		case !found:
			return nil
		case d.RefreshAt.IsZero() || time.Now().Before(d.RefreshAt):
		default:
			oneOf(t, f, p, "k") // requests a refresh
		}
		return errors.New("it is there")
	})
	server.Kill()
	redistest.WaitFor(t, "the node decides by itself", func() error {
		r, source := oneOf(t, f, p, "k")
		if source != limiter.SourceFallback {
			return fmt.Errorf("%s decides", source)
		}
		if r.Banned {
			t.Errorf("%+v; want no ban", r)
		}
		return nil
	})
}

// TestFailover_ban_of_outage has a node ban a client in an outage. Redis does not know of it and decides
// again: the next outage does not bring the ban back, which no operator can see in between.
func TestFailover_ban_of_outage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	f := New(openRedis(t, server, 2*time.Second), memory.New(), Options{DenyAge: MaxDenyAge, ForgiveOutages: true})
	p := hourBan(t, "of-outage", 1)
	server.Kill()
	banOn(t, f, p, "k")
	server.Run(t)
	redistest.WaitFor(t, "Redis decides again", func() error {
		if r, source := oneOf(t, f, p, "k"); source != limiter.SourceRedis || !r.Passes() {
			return fmt.Errorf("%+v from %s", r, source)
		}
		return nil
	})
	if list, _, err := f.Banned(context.Background(), ""); err != nil || len(list) > 0 {
		t.Errorf("listed are %+v, %v", list, err)
	}
	server.Kill()
	if r, source := oneOf(t, f, raised(t, p), "k"); r.Banned || source != limiter.SourceFallback {
		t.Errorf("%+v from %s", r, source)
	}
	if b := f.local.Lock(p, "k"); b.Bans["k"].Offenses != 1 {
		t.Errorf("the offenses are %+v; want that of the outage", b.Bans["k"])
		b.Mu.Unlock()
	} else {
		b.Mu.Unlock()
	}
}
