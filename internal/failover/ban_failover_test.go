package failover

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// oneOf decides a request of one unit by the store.
func oneOf(t *testing.T, f *Store, p *limiter.Policy, key string) (limiter.Result, limiter.Source) {
	t.Helper()
	checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey(key)}}
	source := assert.NoError(f.Decide(context.Background(), checks))(t)
	return checks[0].Result, source
}

// ask has a client request one unit again and again.
func ask(t *testing.T, f *Store, p *limiter.Policy, key string, times int) {
	t.Helper()
	for range times {
		oneOf(t, f, p, key)
	}
}

// TestFailover_ban plays how clients are banned and how bans end: on Redis and in process, by another node, in an outage.
func TestFailover_ban(t *testing.T) {
	t.Parallel()
	after := func(denials int) *limiter.Policy { return storetest.HourBan(t, "bans", denials) }
	plain := storetest.NewPolicy(t, limiter.Settings{Name: "plain", Algorithm: limiter.FixedWindow, Limit: 1, Window: 30 * 24 * time.Hour})
	one, kept := []*limiter.Policy{after(1)}, storetest.HourBan(t, "kept", 1)
	override := []*limiter.Policy{after(1), raised(t, after(1))}
	short, cached := Behavior{DenyAge: 100 * time.Millisecond}, Behavior{DenyAge: MaxDenyAge}
	const twice, reset = "take 1 take 1 ", "take 1 take 1 bans 1 banned 1 reset 1 take 1 left 1 listed 0 reset 1 take 1 take 1 bans 1 banned 1 resetall 2 take 1 left 1 listed 0"
	const all = `of 0 key b take 1 take 1 denied 1 bans 1 key a take 1 take 1 denied 1 bans 1 key counted take 1 take 1 denied 1 of 1 key a take 1 take 1 bans 1 ` +
		`unbanall "" 0 unbanall * 0 unbanall b* 0 unbanall ban? 0 unbanall bans 2 of 0 denied 1 key counted denied 1 of 1 key a banned 1`
	playScenes(t, []*scene{
		// Each denial counts, though the cache repeats denials. Redis is not asked again about who is banned.
		{name: "flood", policies: []*limiter.Policy{after(3)}, options: cached, recalls: true, steps: "a take 1 by redis take 1 by redis denied 1 by redis denied 1 by redis bans 1 by redis " +
			strings.Repeat("banned 1 by deny_cache ", 100) + "unban denied 1 by redis"},
		{name: "another policy denies", policies: []*limiter.Policy{plain, after(3)}, options: cached, steps: "a take 1 others 1 of 1 take 1 denied 1 of 01 denied 1 bans 1 banned 1"},
		{name: "another node takes the rest", policies: []*limiter.Policy{plain, after(3)}, options: short, steps: "a take 1 " +
			strings.Repeat("others 1 ", 50) + "seen deny_cache of 1 b take 1 of 01 a until banned 1 deny_cache"},
		{name: "outage", policies: []*limiter.Policy{after(2)}, steps: "a key kept " + twice + "denied 1 bans 1 key lifted " + twice + "denied 1 bans 1 b reset 1 a take 1 " +
			"kill key kept banned 1 by fallback key lifted take 1 by fallback key kept forget take 1"},
		{name: "more than there can be", policies: one, steps: "a " + twice + "bans 1 never 3 kill banned 1 by fallback"},
		{name: "a full Redis", policies: one, steps: "a " + twice + "full denied 1 by redis roomy bans 1"},
		{name: "reset on Redis", policies: one, options: cached, steps: "a " + reset},
		{name: "reset in process", policies: one, options: cached, steps: "m " + reset},
		{name: "all of a policy on Redis", policies: []*limiter.Policy{after(2), kept}, options: cached, steps: "a " + all},
		{name: "all of a policy in process", policies: []*limiter.Policy{after(2), kept}, options: cached, steps: "m " + all},
		{name: "a Redis whose clock is behind", policies: one, ahead: -2 * time.Hour, steps: "a " + twice + "bans 1 key a " + twice + "bans 1 key b " + twice + "bans 1 b listed 3 c unban d unbanall bans 2"},
		{name: "another node lifts it", policies: override, options: cached, steps: "a of 0 " + twice + "bans 1 banned 1 b of 1 banned 1 a of 0 unban b of 1 until take 1 redis kill take 1 by fallback"},
		// Redis does not know of the ban of an outage. The next outage does not bring it back.
		{name: "of an outage", policies: override, options: Behavior{DenyAge: MaxDenyAge, ForgiveOutages: true}, steps: "a of 0 kill " + twice + "bans 1 banned 1 start until take 1 redis listed 0 kill of 1 take 1 by fallback of 0 offenses 1"},
	})
}

// TestFailover_ban_burst sends many requests at once from two nodes: one of them begins one ban.
func TestFailover_ban_burst(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	p := storetest.NewPolicy(t, limiter.Settings{Name: "burst", Algorithm: limiter.FixedWindow, Limit: 2, Window: 30 * 24 * time.Hour, Ban: []time.Duration{time.Hour, 2 * time.Hour}})
	var nodes []*Store
	for range 2 {
		nodes = append(nodes, New(stores.Open(t, server), memory.New(), Behavior{DenyAge: time.Second}))
	}
	var mu sync.Mutex
	passed, began := 0, 0
	storetest.InParallel(400, func(i int) {
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
	assert.ErrorIf(t, passed != 2 || began != 1, "%d passed and %d bans began; want 2 and 1", passed, began)
	for _, f := range nodes {
		list, complete, err := f.Banned(context.Background(), "")
		if err != nil || !complete || len(list) != 1 || list[0].Policy != "burst" || list[0].Key.String() != "k" || list[0].Offenses != 1 || list[0].Left < 59*time.Minute {
			t.Errorf("%+v, %v, %v", list, complete, err)
		}
	}
}

// TestCluster_bans has requests whose policies lie in two slots: their denials come from peeks, and
// count all the same, once a request, and not while a client of the request is banned.
func TestCluster_bans(t *testing.T) {
	t.Parallel()
	r, _ := stores.OpenCluster(t)
	f := New(r, memory.New(), Behavior{DenyAge: time.Second})
	perUser, perAddress := storetest.HourBan(t, "user", 3), storetest.HourBan(t, "address", 1)
	both := func(user, address string) (a, b limiter.Result) {
		checks := storetest.Decide(t, f, limiter.Check{Policy: perUser, Key: limiter.EncodeKey(user)}, limiter.Check{Policy: perAddress, Key: limiter.EncodeKey(address)})
		return checks[0].Result, checks[1].Result
	}
	both("u", "1")
	both("u", "2")
	for i := range 2 {
		a, b := both("u", "3")
		assert.FatalIf(t, a.Passes() || a.Banned || !b.Passes() || b.Banned, "denial %d: %+v and %+v", i, a, b)
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
	assert.ErrorIf(t, !result.BanBegins, "%+v", result)
	list, complete, err := f.Banned(context.Background(), "")
	assert.ErrorIf(t, err != nil || !complete || len(list) != 2,
		"%+v, %v, %v; want the bans of all masters", list, complete, err)
	found, err := f.Unban(context.Background(), perUser, limiter.EncodeKey("u"))
	assert.ErrorIf(t, err != nil || !found, "%v, %v", found, err)
	if stored, err := r.Inspect(context.Background(), perAddress, limiter.EncodeKey("3")); err != nil || len(stored) != 2 || stored[1].Value["offenses"] != int64(1) || stored[1].TTL < time.Hour {
		t.Errorf("%+v, %v", stored, err)
	}
}
