package overrides

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// newStore returns a store on a Redis, closed with the test.
func newStore(t testing.TB, format limiter.KeyFormat, options dial.Connection) *redis.Store {
	t.Helper()
	client := assert.NoError(dial.New(options))(t)
	store := redis.New(client, redis.Setup{KeyFormat: format})
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// newNode returns the overrides of a node of its own, which does not poll.
func newNode(t testing.TB, format limiter.KeyFormat, mode dial.Mode, addresses ...string) *Live {
	t.Helper()
	store := newStore(t, format, dial.Connection{Mode: mode, Addresses: addresses, Timeout: 20 * time.Second})
	return NewShared(store, format, nil, Hooks{})
}

var plain = limiter.KeyFormat{Prefix: "rl"}

func key(text string) limiter.EncodedKey { return limiter.EncodeKey(text) }

// put sets an override of a client; empty for all.
func put(t testing.TB, l *Live, target Target, s Spec, lasts time.Duration) {
	t.Helper()
	assert.NoError(l.Put(t.Context(), target, s, lasts))(t)
}

// find returns the override of a key, or that of all.
func find(l *Live, policy string, key limiter.EncodedKey) *Entry {
	e, _ := l.Find(policy, key)
	return e
}

func refresh(t testing.TB, l *Live) {
	t.Helper()
	assert.Must(t, l.Refresh(t.Context()))
}

// wantLimit checks the limit that a key has by an override; 0: it has none.
func wantLimit(t testing.TB, l *Live, policy, client string, want int64) {
	t.Helper()
	got := int64(0)
	if e := find(l, policy, key(client)); e != nil {
		got = e.Limit
	}
	assert.ErrorIf(t, got != want, "policy %s, key %q: the limit is %d, want %d", policy, client, got, want)
}

// TestLive_stores runs tests on two nodes of each kind of store. Without Redis both are one.
func TestLive_stores(t *testing.T) {
	server := redistest.Start(t)
	var addresses []string
	for _, s := range redistest.StartCluster(t) {
		addresses = append(addresses, s.Addr)
	}
	for name, test := range map[string]func(t *testing.T, a, b *Live){
		"Put_Remove": putAndRemove, "Find_hostile": findHostile, "Put_full": putFull, "Find_ended": findEnded,
	} {
		onRedis := func(mode dial.Mode, secret string, addresses ...string) func(*testing.T) {
			return func(t *testing.T) {
				format := limiter.KeyFormat{Prefix: name + secret, Secret: secret}
				test(t, newNode(t, format, mode, addresses...), newNode(t, format, mode, addresses...))
			}
		}
		t.Run(name+"/memory", func(t *testing.T) {
			l := NewLocal(Hooks{})
			test(t, l, l)
		})
		t.Run(name+"/standalone", onRedis(dial.Standalone, "", server.Addr))
		t.Run(name+"/hashed", onRedis(dial.Standalone, "secret", server.Addr))
		t.Run(name+"/lua54", func(t *testing.T) { onRedis(dial.Standalone, "", redistest.StartLua54(t).Addr)(t) })
		t.Run(name+"/cluster", onRedis(dial.Cluster, "", addresses...))
	}
}

func putAndRemove(t *testing.T, a, b *Live) {
	put(t, a, a.Target("api", key("acme")), Spec{Action: Limit, Limit: 5000, Note: "tonight"}, 2*time.Hour)
	put(t, a, Target{Policy: "api"}, Spec{Action: Limit, Limit: 7}, 0)
	put(t, a, a.Target("login", key("acme")), Spec{Action: Block}, 0)
	refresh(t, b)
	for _, l := range []*Live{a, b} {
		wantLimit(t, l, "api", "acme", 5000)
		wantLimit(t, l, "api", "other", 7)
		wantLimit(t, l, "search", "acme", 0)
		e := find(l, "login", key("acme"))
		assert.FatalIf(t, e == nil || e.Action != Block || !e.Until.IsZero() || l.Len() != 3, "the block is %v, of %d", e, l.Len())
		raised := find(l, "api", key("acme"))
		if left := raised.Until.Sub(l.Now()); raised.Note != "tonight" || left < 119*time.Minute || left > 2*time.Hour {
			t.Errorf("the note is %q, it ends in %v", raised.Note, left)
		}
		assert.ErrorIf(t, !l.Blocks("login") || l.Blocks("api"), "login blocks, and api does not")
	}
	assert.Must(t, b.Remove(t.Context(), b.Target("api", key("acme"))))
	err := b.Remove(t.Context(), b.Target("api", key("acme")))
	assert.ErrorIf(t, !errors.Is(err, ErrAbsent), "removing it twice: %v", err)
	refresh(t, a)
	wantLimit(t, a, "api", "acme", 7)
	for _, target := range []Target{{Policy: "api"}, a.Target("login", key("acme"))} {
		assert.Must(t, a.Remove(t.Context(), target))
	}
	if refresh(t, b); b.Applied.Load() != nil || b.Len() != 0 {
		t.Error("without overrides a request looks at more than a nil pointer")
	}
}

// findHostile has keys that look like what stands for all, for another policy or for another key.
func findHostile(t *testing.T, a, b *Live) {
	hostile := []string{"", "%", "*", "all", ":", "api", "api:acme", "login", "}:x", "{%!overrides}", "\x00", "\xff", "%~aa", "a\nb"}
	for i, text := range hostile {
		put(t, a, a.Target("api", key(text)), Spec{Action: Limit, Limit: int64(i + 1)}, 0)
	}
	refresh(t, b)
	for i, text := range hostile {
		wantLimit(t, b, "api", text, int64(i+1))
		wantLimit(t, b, "login", text, 0)
	}
	wantLimit(t, b, "api", "acme", 0)
	all, clients := b.OfPolicy("api")
	assert.ErrorIf(t, all != nil || clients != len(hostile), "all: %v, clients: %d", all, clients)
}

func putFull(t *testing.T, a, b *Live) {
	stored := map[string]string{}
	for i := range maxEntries {
		stored[fmt.Sprintf("api:%d", i)] = format(time.Time{}, `{"do":"limit","limit":5}`)
	}
	a.apply(holding{version: version{number: 1, count: maxEntries}, stored: stored})
	if a.store == nil {
		a.apply(holding{stored: stored})
	}
	refresh(t, a) // restores them in Redis
	refresh(t, b)
	assert.FatalIf(t, b.Len() != maxEntries, "there are %d", b.Len())
	_, err := b.Put(t.Context(), Target{Policy: "api", Client: "one more"}, Spec{Action: Block}, 0)
	assert.ErrorIf(t, !errors.Is(err, ErrFull), "one more: %v", err)
	put(t, b, Target{Policy: "api", Client: "17"}, Spec{Action: Block}, 0) // another one in its place
	assert.Must(t, b.Remove(t.Context(), Target{Policy: "api", Client: "18"}))
	put(t, b, Target{Policy: "api", Client: "one more"}, Spec{Action: Block}, 0)
	refresh(t, a)
	assert.ErrorIf(t, a.Len() != maxEntries || a.held.Load().entries["api:17"].Action != Block, "there are %d", a.Len())
}

// findEnded moves the clock past the end of overrides. The next change removes them.
func findEnded(t *testing.T, a, b *Live) {
	put(t, a, a.Target("api", key("acme")), Spec{Action: Limit, Limit: 5}, time.Minute)
	put(t, a, Target{Policy: "api"}, Spec{Action: Block}, time.Hour)
	before := a.Now()
	a.learnTime(before.Add(61 * time.Second))
	if e := find(a, "api", key("acme")); e == nil || !e.All() || a.Len() != 1 {
		t.Errorf("after a minute that of all applies, not %v of %d", e, a.Len())
	}
	a.learnTime(before.Add(61 * time.Minute))
	if e := find(a, "api", key("acme")); e != nil {
		t.Errorf("after an hour there is %v", e)
	}
	put(t, a, a.Target("login", key("acme")), Spec{Action: Exempt}, 0)
	assert.Equal(t, len(a.held.Load().stored), 1, "how many are kept")
	refresh(t, b)
	assert.Equal(t, len(b.held.Load().stored), 1, "how many are kept in Redis")
}

// TestLive_OnChange names what has changed.
func TestLive_OnChange(t *testing.T) {
	var changes []string
	hooks := Hooks{OnChange: func(policy string, keys ...limiter.EncodedKey) {
		changes = append(changes, fmt.Sprint(policy, len(keys), keys))
	}}
	l := NewLocal(hooks)
	put(t, l, l.Target("api", key("acme")), Spec{Action: Block}, 0)
	put(t, l, l.Target("login", key("")), Spec{Action: Block}, 0)
	put(t, l, Target{Policy: "api"}, Spec{Action: Block}, 0)
	_ = l.Remove(t.Context(), l.Target("api", key("acme")))
	want := []string{"api1 [acme]", "login1 []", "api0 []", "api1 [acme]"}
	assert.ErrorIf(t, !slices.Equal(changes, want), "the changes are %q, want %q", changes, want)
}

// TestLive_restart has Redis lose everything. A node that has missed a change is the first to restore.
func TestLive_restart(t *testing.T) {
	server := redistest.Start(t)
	node := func() *Live { return newNode(t, plain, dial.Standalone, server.Addr) }
	stale, a, b := node(), node(), node()
	put(t, a, Target{Policy: "api", Client: "acme"}, Spec{Action: Limit, Limit: 5}, 0)
	put(t, a, Target{Policy: "api", Client: "removed"}, Spec{Action: Block}, 0)
	refresh(t, stale)
	put(t, a, Target{Policy: "api", Client: "acme"}, Spec{Action: Limit, Limit: 6}, time.Hour)
	assert.Must(t, a.Remove(t.Context(), Target{Policy: "api", Client: "removed"}))
	refresh(t, b)
	server.Kill()
	if err := b.Refresh(t.Context()); !errors.Is(err, limiter.ErrUndecided) {
		t.Errorf("without Redis: %v", err)
	}
	if _, err := b.Put(t.Context(), Target{Policy: "api"}, Spec{Action: Block}, 0); !errors.Is(err, limiter.ErrUndecided) {
		t.Errorf("without Redis: %v", err)
	}
	wantLimit(t, b, "api", "acme", 6)
	server.Run(t)
	for _, l := range []*Live{stale, b, stale, a} {
		assert.WaitFor(t, "Redis is asked", func() error { return l.Refresh(t.Context()) })
	}
	newcomer := node()
	refresh(t, newcomer)
	for _, l := range []*Live{stale, a, b, newcomer} {
		wantLimit(t, l, "api", "acme", 6)
		assert.ErrorIf(t, l.Len() != 1 || find(l, "api", key("acme")).Until.IsZero(), "it has %d overrides", l.Len())
	}
}

// TestLive_lost_entries loses the entries alone, and a value to another hand.
func TestLive_lost_entries(t *testing.T) {
	server := redistest.Start(t)
	a, b := newNode(t, plain, dial.Standalone, server.Addr), newNode(t, plain, dial.Standalone, server.Addr)
	put(t, a, Target{Policy: "api", Client: "acme"}, Spec{Action: Limit, Limit: 5}, 0)
	client := server.Client(t)
	assert.Must(t, client.Del(t.Context(), a.keys.entries).Err())
	refresh(t, b) // finds that entries are missing, and so restores nothing
	b.lookedAt, a.lookedAt = time.Time{}, time.Time{}
	refresh(t, b)
	refresh(t, a)
	refresh(t, b)
	wantLimit(t, b, "api", "acme", 5)

	client.HSet(t.Context(), a.keys.entries, "api:x", "nonsense")
	client.Set(t.Context(), a.keys.version, "9000000000000000 2", 0)
	refresh(t, b)
	assert.Must(t, b.Remove(t.Context(), Target{Policy: "api", Client: "acme"}))
	assert.Equal(t, client.HLen(t.Context(), a.keys.entries).Val(), 1, "what is left of another version")
}

// TestLive_node_only has a node apply overrides by itself: no other node sees them, they end by their own time, and by
// Redis, and other errors than those of an outage are none.
func TestLive_node_only(t *testing.T) {
	server := redistest.Start(t)
	var changed []string
	var ended int
	store := newStore(t, plain, dial.Connection{Mode: dial.Standalone, Addresses: []string{server.Addr}, Timeout: 20 * time.Second})
	a := NewShared(store, plain, nil, Hooks{
		OnChange:      func(policy string, keys ...limiter.EncodedKey) { changed = append(changed, fmt.Sprint(policy, keys)) },
		OnNodeOnlyEnd: func(n int) { ended += n },
	})
	put(t, a, a.Target("api", key("acme")), Spec{Action: Limit, Limit: 5}, 0)
	server.Kill()
	_, err := a.Put(t.Context(), a.Target("api", key("acme")), Spec{Action: Block}, 0)
	assert.ErrorIf(t, !errors.Is(err, limiter.ErrUndecided), "a Redis that was killed: %v", err)
	changed = nil
	for _, name := range []string{"acme", "other", "ends"} {
		lasts := time.Duration(0)
		if name == "ends" {
			lasts = time.Minute
		}
		e := assert.NoError(a.PutOnNode(a.Target("api", key(name)), Spec{Action: Block}, lasts))(t)
		assert.ErrorIf(t, !e.NodeOnly || find(a, "api", key(name)) != e, "%s has %v", name, e)
	}
	later := NewShared(store, plain, a, Hooks{}) // of a reload
	for _, l := range []*Live{a, later} {
		assert.ErrorIf(t, l.Len() != 3 || !l.Blocks("api") || find(l, "api", key("acme")).Action != Block, "%d overrides apply", l.Len())
	}
	sample := a.clock.Load()
	a.learnTime(a.Now().Add(time.Minute))
	assert.ErrorIf(t, a.Len() != 2 || find(a, "api", key("ends")) != nil, "%d overrides apply a minute later", a.Len())
	a.clock.Store(sample)
	assert.ErrorIf(t, !a.RemoveOnNode(a.Target("api", key("ends"))) || a.RemoveOnNode(a.Target("api", key("ends"))), "it is not removed once")
	want := []string{"api[acme]", "api[other]", "api[ends]", "api[ends]"}
	assert.ErrorIf(t, !slices.Equal(changed, want), "the changes are %q, want %q", changed, want)

	server.Run(t)
	assert.WaitFor(t, "Redis is asked", func() error { return a.Refresh(t.Context()) })
	a.tendOwn(t.Context(), nil)
	assert.Equal(t, a.Len(), 2, "what applies when Redis is back")
	a.calmSince = a.calmSince.Add(-calmSpan)
	a.tendOwn(t.Context(), nil)
	newcomer := newNode(t, plain, dial.Standalone, server.Addr)
	refresh(t, newcomer)
	for _, l := range []*Live{a, newcomer} {
		wantLimit(t, l, "api", "acme", 5)
		assert.Equal(t, l.Len(), 1, "what applies once Redis has been back for a while")
	}
	assert.Equal(t, ended, 2, "how many have ended")
	client := server.Client(t)
	assert.Must(t, client.Do(t.Context(), "config", "set", "maxmemory", "1").Err())
	_, err = a.Put(t.Context(), a.Target("api", key("x")), Spec{Action: Block}, 0)
	assert.ErrorIf(t, !errors.Is(err, limiter.ErrUndecided), "a full Redis: %v", err)
}

// TestLive_node_only_full has no room for one more, but for one in the place of another.
func TestLive_node_only_full(t *testing.T) {
	l := NewLocal(Hooks{})
	for i := range maxEntries {
		l.held.Load().stored[fmt.Sprintf("api:%d", i)] = format(time.Time{}, `{"do":"block"}`)
	}
	l.apply(*l.held.Load())
	_, err := l.PutOnNode(l.Target("api", key("one more")), Spec{Action: Block}, 0)
	assert.ErrorIf(t, !errors.Is(err, ErrFull), "one more: %v", err)
	assert.NoError(l.PutOnNode(l.Target("api", key("17")), Spec{Action: Exempt}, 0))(t)
	assert.ErrorIf(t, l.Len() != maxEntries || find(l, "api", key("17")).Action != Exempt, "%d apply", l.Len())
}
