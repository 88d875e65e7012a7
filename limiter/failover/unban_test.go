package failover

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/deny"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

// TestFailover_ban_reset resets a key and a whole policy: both forget bans.
func TestFailover_ban_reset(t *testing.T) {
	t.Parallel()
	p := hourBan(t, "reset", 1)
	for _, f := range bothStores(t, Options{DenyAge: time.Second}) {
		for _, reset := range []func() (ResetCount, error){
			func() (ResetCount, error) { return f.Reset(context.Background(), p, limiter.EncodeKey("k")) },
			func() (ResetCount, error) { return f.ResetAll(context.Background(), "reset") },
		} {
			ask(t, f, p, "k", 3)
			r, _ := oneOf(t, f, p, "k")
			redistest.FatalIf(t, !r.Banned, "%+v", r)
			redistest.NoError(reset())(t)
			r, _ = oneOf(t, f, p, "k")
			redistest.ErrorIf(t, !r.Passes() || r.Remaining != 1, "after a reset: %+v", r)
			list, _, err := f.Banned(context.Background(), "reset")
			redistest.ErrorIf(t, err != nil || len(list) > 0, "%+v, %v", list, err)
			redistest.NoError(reset())(t)
		}
	}
}

// TestFailover_UnbanAll lifts all bans of one policy, also where the denials of a client are counted that is
// not banned, and tells only the bans.
func TestFailover_UnbanAll(t *testing.T) {
	t.Parallel()
	for name, f := range bothStores(t, Options{DenyAge: time.Minute}) {
		lifted, kept := hourBan(t, "lifted", 2), hourBan(t, "kept", 1)
		for range 4 {
			for _, key := range []string{"a", "b"} {
				oneOf(t, f, lifted, key)
			}
		}
		for range 3 {
			oneOf(t, f, lifted, "counted")
			oneOf(t, f, kept, "a")
		}
		for _, pattern := range []string{"", "*", "l*", "lifte?"} {
			n, err := f.UnbanAll(context.Background(), pattern)
			redistest.ErrorIf(t, n != 0 || err != nil, "%s: %d bans of %q lifted, %v; want none", name, n, pattern, err)
		}
		n, err := f.UnbanAll(context.Background(), "lifted")
		redistest.ErrorIf(t, n != 2 || err != nil, "%s: %d bans lifted, %v; want 2", name, n, err)
		for _, key := range []string{"a", "counted"} {
			r, _ := oneOf(t, f, lifted, key)
			redistest.ErrorIf(t, r.Passes() || r.Banned, "%s: %s gets %+v; want a denial without a ban, the first of two", name, key, r)
		}
		r, _ := oneOf(t, f, kept, "a")
		redistest.ErrorIf(t, !r.Banned, "%s: the other policy's client gets %+v; want a ban", name, r)
	}
}

// TestUnban_clock lists and lifts bans of a Redis whose clock is behind, on nodes that have decided nothing.
func TestUnban_clock(t *testing.T) {
	t.Parallel()
	server := redistest.StartAt(t, -2*time.Hour)
	p := hourBan(t, "clock", 1)
	newNode := func() *Store { return New(openRedis(t, server, 10*time.Second), memory.New(), Options{}) }
	f := newNode()
	for _, key := range []string{"a", "b", "c"} {
		ask(t, f, p, key, 3)
	}
	if list, _, err := newNode().Banned(context.Background(), "clock"); err != nil || len(list) != 3 || list[0].Left > time.Hour || list[0].Left < 59*time.Minute {
		t.Errorf("listed are %+v, %v", list, err)
	}
	banned, err := newNode().Unban(context.Background(), p, limiter.EncodeKey("a"))
	redistest.ErrorIf(t, err != nil || !banned, "%v, %v; want one ban lifted", banned, err)
	n, err := newNode().UnbanAll(context.Background(), "clock")
	redistest.ErrorIf(t, err != nil || n != 2, "%v, %v; want two bans lifted", n, err)
}

// TestUnban_rights has a user that may not read: no list is short, and no ban is lifted unseen.
func TestUnban_rights(t *testing.T) {
	t.Parallel()
	r, _, setPermissions := openLimited(t)
	f := New(r, memory.New(), Options{})
	ask(t, f, hourBan(t, "rights", 1), "a", 3)
	setPermissions("-get")
	list, complete, err := f.Banned(t.Context(), "")
	redistest.ErrorIf(t, err == nil || complete, "listed are %v, complete: %v; want an error", list, complete)
}

// raised returns the policy with a limit that the clients of a test never reach, as an override does.
func raised(t *testing.T, p *limiter.Policy) *limiter.Policy {
	t.Helper()
	other := redistest.NoError(p.WithLimit(50, 0))(t)
	return other
}

// banOn has a client banned, and sees to it that a count denies it no more.
func banOn(t *testing.T, f *Store, p *limiter.Policy, key string) {
	t.Helper()
	ask(t, f, p, key, 3)
	r, _ := oneOf(t, f, p, key)
	redistest.FatalIf(t, !r.Banned, "%+v; want a ban", r)
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
	r, _ := oneOf(t, b, q, "k")
	redistest.FatalIf(t, !r.Banned, "%+v", r)
	redistest.NoError(a.Unban(t.Context(), p, limiter.EncodeKey("k")))(t)
	redistest.Retry(t, "the other node lets the client through", func() (again bool, seen any) {
		r, source := oneOf(t, b, q, "k")
		return !r.Passes(), fmt.Sprintf("%+v from %s", r, source)
	})
	server.Kill()
	r, source := oneOf(t, b, q, "k")
	redistest.ErrorIf(t, !r.Passes() || source != limiter.SourceFallback, "in an outage: %+v from %s", r, source)
}

// TestFailover_Unban_refreshed has a node learn that a ban was lifted by a refresh of its deny cache alone:
// an outage that begins before the client's next request does not bring the ban back.
func TestFailover_Unban_refreshed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	f := New(openRedis(t, server, 2*time.Second), memory.New(), Options{DenyAge: MaxDenyAge})
	p := hourBan(t, "refreshed", 2)
	ask(t, f, p, "k", 2)
	banOn(t, f, p, "k")
	if _, err := f.shared.Unban(t.Context(), p, limiter.EncodeKey("k")); err != nil { // as another node
		t.Fatal(err)
	}
	shard := f.denied.Shards.Of("k")
	redistest.WaitFor(t, "the ban leaves the deny cache", func() error {
		shard.Mu.Lock()
		d, found := shard.Denials[deny.Key{Policy: p, Key: "k", Weight: deny.AnyWeight, Reserve: 0}]
		shard.Mu.Unlock()
		switch {
		case !found:
			return nil
		case d.RefreshAt == 0 || clock.Now() < d.RefreshAt:
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
		redistest.ErrorIf(t, r.Banned, "%+v; want no ban", r)
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
	redistest.Retry(t, "Redis decides again", func() (again bool, seen any) {
		r, source := oneOf(t, f, p, "k")
		return source != limiter.SourceRedis || !r.Passes(), fmt.Sprintf("%+v from %s", r, source)
	})
	list, _, err := f.Banned(context.Background(), "")
	redistest.ErrorIf(t, err != nil || len(list) > 0, "listed are %+v, %v", list, err)
	server.Kill()
	r, source := oneOf(t, f, raised(t, p), "k")
	redistest.ErrorIf(t, r.Banned || source != limiter.SourceFallback, "%+v from %s", r, source)
	b := f.local.Lock(p, "k")
	defer b.Mu.Unlock()
	redistest.Equal(t, b.Bans["k"].Offenses, 1, "the number of offenses, of the outage")
}

// TestFailover_ban_outage_counted has an outage with a policy that bans and refunds, also where a node
// enforces a part of the limits: only units that stay make a denial an offense.
func TestFailover_ban_outage_counted(t *testing.T) {
	t.Parallel()
	for fraction, capacity := range map[float64]int{0: 6, 0.5: 3} {
		server := redistest.Start(t)
		f := New(openRedis(t, server, time.Second), memory.New(), Options{LocalFraction: fraction, DenyAge: time.Second})
		s := newTestStore(f, fmt.Sprint("fraction ", fraction), limiter.SourceFallback)
		p := storetest.NewPolicy(t, limiter.Settings{Name: "counted", Algorithm: limiter.FixedWindow, Limit: 6, Window: 30 * 24 * time.Hour, Ban: []time.Duration{time.Hour}, Refunds: true})
		server.Kill()
		take := func() []limiter.Check {
			return s.Request(t, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Refundable: true})
		}
		denied := func(why string) {
			r := take()[0].Result
			redistest.FatalIf(t, r.Passes() || r.Banned, "%s: %s: %+v; want a denial without a ban", s.Name, why, r)
		}
		var taken [][]limiter.Check
		for range capacity {
			taken = append(taken, take())
		}
		for range 3 {
			denied("parallel requests that may all be refunded")
		}
		s.Refund(taken[0])
		for _, checks := range taken[1:] {
			s.Keep(checks)
		}
		last := take()
		redistest.FatalIf(t, !limiter.Allowed(last), "%s: after a refund: %+v", s.Name, last)
		denied("one unit is not known to stay")
		s.Keep(last)
		r := take()[0].Result
		redistest.ErrorIf(t, !r.BanBegins, "%s: all units stay: %+v", s.Name, r)
	}
}

// TestFailover_ban_bound has more clients banned on Redis than the deny cache and the memory for outages
// hold: both keep to their bounds, and every client stays banned.
func TestFailover_ban_bound(t *testing.T) {
	t.Parallel()
	const bound = 300
	m := memory.New()
	m.Limit(bound, nil)
	f := New(openRedis(t, redistest.Shared(t), 10*time.Second), m, Options{DenyAge: time.Second})
	p := hourBan(t, "bound", 1)
	for i := range 2000 {
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey(fmt.Sprint(i)), Weight: 2}}
		for n := range 3 {
			if _, err := f.Decide(context.Background(), checks); err != nil || checks[0].Result.Banned != (n > 0) {
				t.Fatalf("client %d, request %d: %+v, %v", i, n, checks[0].Result, err)
			}
		}
	}
	redistest.ErrorIf(t, m.Len() > bound, "%d keys are kept for outages, want at most %d", m.Len(), bound)
	wantDenials := func(most int) {
		t.Helper()
		for i := range f.denied.Shards {
			n := f.denied.Shards[i].Len()
			redistest.ErrorIf(t, n > most, "%d denials are in a shard, want at most %d", n, most)
		}
	}
	wantDenials(deny.DenyShardSize)
	n, err := f.UnbanAll(context.Background(), "bound")
	redistest.ErrorIf(t, n != 2000 || err != nil, "%d bans lifted, %v", n, err)
	wantDenials(0)
}
