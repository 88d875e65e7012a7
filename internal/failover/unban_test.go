package failover

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// TestUnban_rights has a user that may not read: no list is short, and no ban is lifted unseen.
func TestUnban_rights(t *testing.T) {
	t.Parallel()
	r, _, setPermissions := stores.OpenLimited(t)
	f := New(r, memory.New(), Behavior{})
	ask(t, f, storetest.HourBan(t, "rights", 1), "a", 3)
	setPermissions("-get")
	list, complete, err := f.Banned(t.Context(), "")
	assert.ErrorIf(t, err == nil || complete, "listed are %v, complete: %v; want an error", list, complete)
}

// raised returns the policy with a limit that the clients of a test never reach, as an override does.
func raised(t *testing.T, p *limiter.Policy) *limiter.Policy {
	t.Helper()
	other := assert.NoError(p.WithLimit(50, 0))(t)
	return other
}

// banOn has a client banned, and sees to it that a count denies it no more.
func banOn(t *testing.T, f *Store, p *limiter.Policy, key string) {
	t.Helper()
	ask(t, f, p, key, 3)
	r, _ := oneOf(t, f, p, key)
	assert.FatalIf(t, !r.Banned, "%+v; want a ban", r)
}

// TestFailover_Unban_refreshed has a node learn that a ban was lifted by a refresh of its deny cache alone:
// an outage that begins before the client's next request does not bring the ban back.
func TestFailover_Unban_refreshed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	f := New(stores.Open(t, server), memory.New(), Behavior{DenyAge: MaxDenyAge})
	f.denied.MaxAge = time.Hour // no denial leaves the cache by its age
	p := storetest.HourBan(t, "refreshed", 2)
	ask(t, f, p, "k", 2)
	banOn(t, f, p, "k")
	if _, err := f.shared.Unban(t.Context(), p, limiter.EncodeKey("k")); err != nil { // as another node
		t.Fatal(err)
	}
	shard, key := f.denied.Shards.Of("k"), key{Policy: p, Key: "k", Weight: anyWeight, Reserve: 0}
	shard.Mu.Lock()
	d := shard.Denials[key]
	d.RefreshAt = 1 // is due
	shard.Denials[key] = d
	shard.Mu.Unlock()
	r, source := oneOf(t, f, p, "k") // requests a refresh
	assert.FatalIf(t, !r.Banned || source != limiter.SourceDenyCache, "%+v by %s; want the remembered ban", r, source)
	assert.WaitFor(t, "the ban leaves the deny cache", func() error {
		shard.Mu.Lock()
		defer shard.Mu.Unlock()
		if _, found := shard.Denials[key]; found {
			return errors.New("it is there")
		}
		return nil
	})
	server.Kill()
	assert.WaitFor(t, "the node decides by itself", func() error {
		r, source := oneOf(t, f, p, "k")
		if source != limiter.SourceFallback {
			return fmt.Errorf("%s decides", source)
		}
		assert.ErrorIf(t, r.Banned, "%+v; want no ban", r)
		return nil
	})
}

// TestFailover_ban_outage_counted has an outage with a policy that bans and refunds, also where a node
// enforces a part of the limits: only units that stay make a denial an offense.
func TestFailover_ban_outage_counted(t *testing.T) {
	t.Parallel()
	for fraction, capacity := range map[float64]int{0: 6, 0.5: 3} {
		server := redistest.Start(t)
		f := New(stores.Open(t, server), memory.New(), Behavior{LocalFraction: fraction, DenyAge: time.Second})
		s := newTestStore(f, fmt.Sprint("fraction ", fraction), limiter.SourceFallback)
		p := storetest.NewPolicy(t, limiter.Settings{Name: "counted", Algorithm: limiter.FixedWindow, Limit: 6, Window: 30 * 24 * time.Hour, Ban: []time.Duration{time.Hour}, Refunds: true})
		server.Kill()
		take := func() []limiter.Check {
			return s.Request(t, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Refundable: true})
		}
		denied := func(why string) {
			r := take()[0].Result
			assert.FatalIf(t, r.Passes() || r.Banned, "%s: %s: %+v; want a denial without a ban", s.Name, why, r)
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
		assert.FatalIf(t, !limiter.Allowed(last), "%s: after a refund: %+v", s.Name, last)
		denied("one unit is not known to stay")
		s.Keep(last)
		r := take()[0].Result
		assert.ErrorIf(t, !r.BanBegins, "%s: all units stay: %+v", s.Name, r)
	}
}

// TestFailover_ban_bound has more clients banned on Redis than the deny cache and the memory for outages
// hold: both keep to their bounds, and every client stays banned.
func TestFailover_ban_bound(t *testing.T) {
	t.Parallel()
	const bound = 300
	m := memory.New()
	m.Limit(bound, nil)
	f := New(stores.Open(t, redistest.Shared(t)), m, Behavior{DenyAge: time.Second})
	p := storetest.HourBan(t, "bound", 1)
	for i := range 2000 {
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey(fmt.Sprint(i)), Weight: 2}}
		for n := range 3 {
			if _, err := f.Decide(context.Background(), checks); err != nil || checks[0].Result.Banned != (n > 0) {
				t.Fatalf("client %d, request %d: %+v, %v", i, n, checks[0].Result, err)
			}
		}
	}
	assert.ErrorIf(t, m.Len() > bound, "%d keys are kept for outages, want at most %d", m.Len(), bound)
	wantDenials := func(most int) {
		t.Helper()
		for i := range f.denied.Shards {
			n := f.denied.Shards[i].len()
			assert.ErrorIf(t, n > most, "%d denials are in a shard, want at most %d", n, most)
		}
	}
	wantDenials(denyShardSize)
	n, err := f.UnbanAll(context.Background(), "bound")
	assert.ErrorIf(t, n != 2000 || err != nil, "%d bans lifted, %v", n, err)
	wantDenials(0)
}

// TestForeignValue_bans has values that no ban is in place of one: they fail that client's requests alone,
// no list names them, and an unban or a reset deletes them.
func TestForeignValue_bans(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	r, client := stores.Open(t, server), server.Client(t)
	f := New(r, memory.New(), Behavior{})
	p := storetest.HourBan(t, "foreign", 1)
	name := r.BanKey(p, limiter.EncodeKey("k"))
	far := float64(time.Now().Add(100 * 365 * 24 * time.Hour).UnixMicro())
	for what, write := range map[string]func() error{
		"list":  func() error { return client.LPush(t.Context(), name, "x").Err() },
		"hash":  func() error { return client.HSet(t.Context(), name, "f", "x").Err() },
		"empty": func() error { return client.Set(t.Context(), name, "", 0).Err() },
		"long":  func() error { return client.Set(t.Context(), name, strings.Repeat("x", 1<<20), 0).Err() },
		"nan":   func() error { return client.Set(t.Context(), name, redistest.Doubles(math.NaN(), 0, 0, 0, 0), 0).Err() },
		"infinite": func() error {
			return client.Set(t.Context(), name, redistest.Doubles(0, 0, 0, math.Inf(1), 0), 0).Err()
		},
		"negative": func() error { return client.Set(t.Context(), name, redistest.Doubles(0, 0, -1, 0, 0), 0).Err() },
		"counted": func() error {
			return client.Set(t.Context(), name, redistest.Doubles(0, 0, 0, 0, 0, math.NaN(), 1), 0).Err()
		},
	} {
		for _, lift := range []string{"unban", "unban all", "reset"} {
			client.FlushDB(t.Context())
			assert.Must(t, write())
			checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k")}}
			if _, err := r.Decide(t.Context(), checks); limiter.Kind(err) != "value" || !limiter.FailedAlone(err) {
				t.Errorf("%s: got %v", what, err)
			}
			_, source := oneOf(t, f, p, "other")
			assert.ErrorIf(t, source != limiter.SourceRedis, "%s: another client is decided by %s", what, source)
			if list, complete, err := f.Banned(t.Context(), ""); len(list) != 0 || !complete || err != nil {
				t.Errorf("%s: listed are %+v, %v, %v", what, list, complete, err)
			}
			var err error
			banned := false
			switch lift {
			case "unban":
				banned, err = f.Unban(t.Context(), p, limiter.EncodeKey("k"))
			case "unban all":
				_, err = f.UnbanAll(t.Context(), "foreign")
			default:
				_, err = f.Reset(t.Context(), p, limiter.EncodeKey("k"))
			}
			n := client.Exists(t.Context(), name).Val()
			assert.ErrorIf(t, n != 0 || banned || err != nil, "%s: after %s: %d keys, a ban: %v, %v", what, lift, n, banned, err)
			result, source := oneOf(t, f, p, "k")
			assert.ErrorIf(t, !result.Passes() || source != limiter.SourceRedis, "%s: after %s: %+v by %s", what, lift, result, source)
		}
	}
	assert.Must(t, client.Set(t.Context(), name, redistest.Doubles(0, 0, 1, far, far), 0).Err())
	result, _ := oneOf(t, f, p, "k")
	assert.ErrorIf(t, !result.Passes(), "a ban of a wrong clock: %+v", result)
}

// TestUnbanAll_prefix has a prefix of characters that a search would take for wildcards.
func TestUnbanAll_prefix(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client := server.Client(t)
	p := storetest.HourBan(t, "prefix", 1)
	for prefix, similar := range map[string]string{"a*": "ab", "a?": "ab", "[ab]": "a", `a\`: "a", "a[": "a"} {
		f := New(stores.OpenWithin(t, server, stores.Patience, limiter.KeyFormat{Prefix: prefix}), memory.New(), Behavior{})
		other := New(stores.OpenWithin(t, server, stores.Patience, limiter.KeyFormat{Prefix: similar}), memory.New(), Behavior{})
		for _, g := range []*Store{f, other} {
			ask(t, g, p, "k", 3)
		}
		list, _, err := f.Banned(t.Context(), "")
		assert.ErrorIf(t, err != nil || len(list) != 1, "%s: listed are %+v, %v", prefix, list, err)
		before := client.DBSize(t.Context()).Val()
		n, err := f.UnbanAll(t.Context(), "prefix")
		assert.ErrorIf(t, n != 1 || err != nil, "%s: %d bans lifted, %v", prefix, n, err)
		found, err := f.ResetAll(t.Context(), "prefix")
		assert.ErrorIf(t, found.Shared != 1 || err != nil, "%s: reset are %+v, %v", prefix, found, err)
		after := client.DBSize(t.Context()).Val()
		assert.ErrorIf(t, after != before-2, "%s: %d keys are deleted, want 2", prefix, before-after)
		client.FlushDB(t.Context())
	}
}
