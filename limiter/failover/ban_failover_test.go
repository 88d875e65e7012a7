package failover

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/decision"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

// hourBan returns a policy of two units a day that bans for an hour after some denials.
func hourBan(t *testing.T, name string, after int) *limiter.Policy {
	t.Helper()
	return storetest.NewPolicy(t, limiter.Settings{Name: name, Algorithm: limiter.FixedWindow, Limit: 2, Window: 30 * 24 * time.Hour, Ban: []time.Duration{time.Hour}, BanAfter: after})
}

// oneOf decides a request of one unit by the store.
func oneOf(t *testing.T, f *Store, p *limiter.Policy, key string) (limiter.Result, limiter.Source) {
	t.Helper()
	checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey(key)}}
	source := redistest.NoError(f.Decide(context.Background(), checks))(t)
	return checks[0].Result, source
}

// ask has a client request one unit again and again.
func ask(t *testing.T, f *Store, p *limiter.Policy, key string, times int) {
	t.Helper()
	for range times {
		oneOf(t, f, p, key)
	}
}

// TestFailover_ban_flood has a client go on after it is denied: each of its denials counts, though the
// cache repeats denials, and once it is banned Redis is not asked again.
func TestFailover_ban_flood(t *testing.T) {
	t.Parallel()
	p, f := hourBan(t, "flood", 3), New(openRedis(t, redistest.Shared(t), 10*time.Second), memory.New(), Options{DenyAge: time.Second})
	for i, banned := range []bool{false, false, false, false, true} {
		r, source := oneOf(t, f, p, "k")
		redistest.FatalIf(t, r.Banned != banned || source != limiter.SourceRedis, "request %d: %+v from %s", i, r, source)
	}
	for range 100 {
		if r, source := oneOf(t, f, p, "k"); !r.Banned || r.BanBegins || r.Remaining != 0 || r.BanLeft < 59*time.Minute || source != limiter.SourceDenyCache {
			t.Fatalf("%+v from %s", r, source)
		}
	}
	found, err := f.Unban(context.Background(), p, limiter.EncodeKey("k"))
	redistest.FatalIf(t, err != nil || !found, "unbanned: %v, %v", found, err)
	r, source := oneOf(t, f, p, "k")
	redistest.ErrorIf(t, r.Banned || r.Passes() || source != limiter.SourceRedis, "after it was unbanned: %+v from %s", r, source)
}

// TestFailover_ban_denied_elsewhere has another policy of the request deny by the cache: the denials of
// the one that bans go on to count.
func TestFailover_ban_denied_elsewhere(t *testing.T) {
	t.Parallel()
	f := New(openRedis(t, redistest.Shared(t), 10*time.Second), memory.New(), Options{DenyAge: time.Second})
	bans, plain := hourBan(t, "bans", 3), storetest.NewPolicy(t, limiter.Settings{Name: "plain", Algorithm: limiter.FixedWindow, Limit: 1, Window: 30 * 24 * time.Hour})
	both := func() limiter.Result {
		checks := storetest.Decide(t, f, limiter.Check{Policy: plain, Key: limiter.EncodeKey("k")}, limiter.Check{Policy: bans, Key: limiter.EncodeKey("k")})
		return checks[1].Result
	}
	both()
	r := both()
	redistest.FatalIf(t, !r.Passes(), "denied by the other policy alone: %+v", r)
	oneOf(t, f, bans, "k")
	oneOf(t, f, bans, "k")
	for range 5 {
		both()
	}
	r = both()
	redistest.ErrorIf(t, !r.Banned, "%+v; want a ban after three denials of its own", r)
}

// TestFailover_ban_filled_elsewhere has another node use up a quota whose denials count, while the deny cache repeats
// a denial by another policy of the request.
func TestFailover_ban_filled_elsewhere(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	f := New(openRedis(t, server, 10*time.Second), memory.New(), Options{DenyAge: 100 * time.Millisecond})
	other := openRedis(t, server, 10*time.Second)
	bans, plain := hourBan(t, "bans", 3), storetest.NewPolicy(t, limiter.Settings{Name: "plain", Algorithm: limiter.FixedWindow, Limit: 1, Window: 30 * 24 * time.Hour})
	sources := map[limiter.Source]int{}
	both := func() limiter.Result {
		checks := []limiter.Check{{Policy: plain, Key: limiter.EncodeKey("k")}, {Policy: bans, Key: limiter.EncodeKey("k")}}
		source := redistest.NoError(f.Decide(context.Background(), checks))(t)
		sources[source]++
		return checks[1].Result
	}
	both()
	for range 50 {
		r := both()
		redistest.FatalIf(t, !r.Passes(), "denied by the other policy alone: %+v", r)
	}
	redistest.ErrorIf(t, sources[limiter.SourceDenyCache] == 0, "decided by %v; want the deny cache too", sources)
	storetest.Decide(t, other, limiter.Check{Policy: bans, Key: limiter.EncodeKey("k"), Weight: 1})
	redistest.Retry(t, "the client is banned", func() (again bool, seen any) {
		r := both()
		return !r.Banned, fmt.Sprintf("%+v", r)
	})
}

// TestFailover_ban_burst sends many requests at once from two nodes: one of them begins one ban.
func TestFailover_ban_burst(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	p := storetest.NewPolicy(t, limiter.Settings{Name: "burst", Algorithm: limiter.FixedWindow, Limit: 2, Window: 30 * 24 * time.Hour, Ban: []time.Duration{time.Hour, 2 * time.Hour}})
	var nodes []*Store
	for range 2 {
		nodes = append(nodes, New(openRedis(t, server, 10*time.Second), memory.New(), Options{DenyAge: time.Second}))
	}
	var mu sync.Mutex
	passed, began := 0, 0
	inParallel(400, func(i int) {
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k")}}
		_, err := nodes[i%2].Decide(context.Background(), checks)
		mu.Lock()
		defer mu.Unlock()
		switch r := checks[0].Result; {
		case err != nil:
			t.Error(err)
		case r.Passes():
			passed++
		case !r.Banned || r.BanLeft > time.Hour:
			t.Errorf("%+v", r)
		case r.BanBegins:
			began++
		}
	})
	redistest.ErrorIf(t, passed != 2 || began != 1, "%d passed and %d bans began; want 2 and 1", passed, began)
	for _, f := range nodes {
		list, complete, err := f.Banned(context.Background(), "")
		if err != nil || !complete || len(list) != 1 || list[0].Policy != "burst" || list[0].Key.String() != "k" || list[0].Offenses != 1 || list[0].Left < 59*time.Minute {
			t.Errorf("%+v, %v, %v", list, complete, err)
		}
	}
}

// TestFailover_ban_outage stops Redis: the node that saw the ban keeps it, and one that is lifted
// is lifted here too.
func TestFailover_ban_outage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p, f := hourBan(t, "outage", 2), New(openRedis(t, server, time.Second), memory.New(), Options{})
	for _, key := range []string{"banned", "lifted"} {
		ask(t, f, p, key, 4)
	}
	redistest.NoError(f.shared.Reset(context.Background(), p, limiter.EncodeKey("lifted")))(t)
	oneOf(t, f, p, "lifted") // by another node's reset
	server.Kill()
	if r, source := oneOf(t, f, p, "banned"); !r.Banned || r.BanLeft < 59*time.Minute || source != limiter.SourceFallback {
		t.Errorf("%+v from %s", r, source)
	}
	r, source := oneOf(t, f, p, "lifted")
	redistest.ErrorIf(t, r.Banned || source != limiter.SourceFallback, "lifted: %+v from %s", r, source)
	redistest.ErrorIf(t, f.HasLocalState(p, limiter.EncodeKey("banned")) != true || f.local.Reset(p, limiter.EncodeKey("banned")) == 0,
		"the ban that is remembered is no state")
	r, _ = oneOf(t, f, p, "banned")
	redistest.ErrorIf(t, r.Banned, "after a reset: %+v", r)
}

// TestFailover_ban_above_capacity has a banned client ask for more than there can be, before an outage.
func TestFailover_ban_above_capacity(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p, f := hourBan(t, "heavy", 1), New(openRedis(t, server, time.Second), memory.New(), Options{})
	ask(t, f, p, "k", 3)
	got := storetest.Decide(t, f, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 3})[0]
	redistest.ErrorIf(t, got.Result.RetryAfter != limiter.Never || decision.Kept(&got).AsOf == 0, "%+v", got)
	server.Kill()
	r, source := oneOf(t, f, p, "k")
	redistest.ErrorIf(t, !r.Banned || source != limiter.SourceFallback, "%+v from %s", r, source)
}

// TestFailover_ban_full_redis fills Redis: denials stay denials.
func TestFailover_ban_full_redis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p, r := hourBan(t, "full", 1), openRedis(t, server, time.Second)
	f := New(r, memory.New(), Options{OnUndecided: func(err error) { t.Error(err) }})
	oneOf(t, f, p, "k")
	oneOf(t, f, p, "k")
	client := server.Client(t)
	noError(t, client.ConfigSet(context.Background(), "maxmemory", "1").Err())
	if r, source := oneOf(t, f, p, "k"); r.Passes() || r.Banned || source != limiter.SourceRedis {
		t.Errorf("%+v from %s", r, source)
	}
	client.ConfigSet(context.Background(), "maxmemory", "0")
	if r, _ := oneOf(t, f, p, "k"); !r.BanBegins {
		t.Errorf("%+v", r)
	}
}

// TestCluster_bans has requests whose policies lie in two slots: their denials come from peeks, and
// count all the same, once a request, and not while a client of the request is banned.
func TestCluster_bans(t *testing.T) {
	t.Parallel()
	r, _ := openCluster(t)
	f := New(r, memory.New(), Options{DenyAge: time.Second})
	perUser, perAddress := hourBan(t, "user", 3), hourBan(t, "address", 1)
	both := func(user, address string) (a, b limiter.Result) {
		checks := storetest.Decide(t, f, limiter.Check{Policy: perUser, Key: limiter.EncodeKey(user)}, limiter.Check{Policy: perAddress, Key: limiter.EncodeKey(address)})
		return checks[0].Result, checks[1].Result
	}
	both("u", "1")
	both("u", "2")
	for i := range 2 {
		a, b := both("u", "3")
		redistest.FatalIf(t, a.Passes() || a.Banned || !b.Passes() || b.Banned, "denial %d: %+v and %+v", i, a, b)
	}
	if a, b := both("u", "3"); !a.BanBegins || a.BanLeft != time.Hour || b.Banned || b.Remaining != 2 {
		t.Errorf("%+v and %+v; want the user banned by the third denial, the address unchanged", a, b)
	}
	oneOf(t, f, perAddress, "3")
	oneOf(t, f, perAddress, "3") // full
	checks := []limiter.Check{{Policy: perUser, Key: limiter.EncodeKey("u")}, {Policy: perAddress, Key: limiter.EncodeKey("3")}}
	if _, err := r.Decide(context.Background(), checks); err != nil || !checks[0].Result.Banned || checks[1].Result.Passes() || checks[1].Result.Banned {
		t.Errorf("%+v, %v; want no offense of the address while the user is banned", checks, err)
	}
	result, _ := oneOf(t, f, perAddress, "3")
	redistest.ErrorIf(t, !result.BanBegins, "%+v", result)
	list, complete, err := f.Banned(context.Background(), "")
	redistest.ErrorIf(t, err != nil || !complete || len(list) != 2,
		"%+v, %v, %v; want the bans of all masters", list, complete, err)
	found, err := f.Unban(context.Background(), perUser, limiter.EncodeKey("u"))
	redistest.ErrorIf(t, err != nil || !found, "%v, %v", found, err)
	if stored, err := r.Inspect(context.Background(), perAddress, limiter.EncodeKey("3")); err != nil || len(stored) != 2 || stored[1].Value["offenses"] != int64(1) || stored[1].TTL < time.Hour {
		t.Errorf("%+v, %v", stored, err)
	}
}
