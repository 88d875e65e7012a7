package overrides

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

const versionKey, entriesKey = "rl:{%!overrides}:version", "rl:{%!overrides}:entries"

// TestLive_foreign_version has texts in place of the version that no node has written: they are none, and
// changes reach the other nodes.
func TestLive_foreign_version(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	for _, text := range []string{"", "x", "-1 1", "1e300", "9007199254740993 0", "9223372036854775807 1", "99999999999999999999999 1", " 5", "5.5", strings.Repeat("9", 1<<20)} {
		client.FlushAll(t.Context())
		a, b := newNode(t, plain, dial.Standalone, server.Addr), newNode(t, plain, dial.Standalone, server.Addr)
		put(t, a, a.Target("api", key("acme")), Spec{Action: Limit, Limit: 5}, 0)
		refresh(t, b)
		assert.Must(t, client.Set(t.Context(), versionKey, text, 0).Err())
		for _, l := range []*Live{a, b} {
			refresh(t, l)
		}
		for i := range int64(3) {
			put(t, a, a.Target("api", key("acme")), Spec{Action: Limit, Limit: 10 + i}, 0)
			refresh(t, b)
			wantLimit(t, b, "api", "acme", 10+i)
			newcomer := newNode(t, plain, dial.Standalone, server.Addr)
			refresh(t, newcomer)
			if wantLimit(t, newcomer, "api", "acme", 10+i); t.Failed() {
				t.Fatalf("with the version %.40q", text)
			}
		}
	}
}

// TestLive_foreign_types has values of other types under both keys. Nodes go on with what they have, and
// say so.
func TestLive_foreign_types(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	for _, name := range []string{versionKey, entriesKey} {
		client.FlushAll(t.Context())
		l := newNode(t, plain, dial.Standalone, server.Addr)
		put(t, l, l.Target("api", key("acme")), Spec{Action: Limit, Limit: 5}, 0)
		client.Del(t.Context(), name)
		client.LPush(t.Context(), name, "foreign")
		_, err := l.Put(t.Context(), l.Target("api", key("other")), Spec{Action: Block}, 0)
		assert.ErrorIf(t, !errors.Is(err, limiter.ErrUndecided), "%s: got %v", name, err)
		newcomer := newNode(t, plain, dial.Standalone, server.Addr)
		if _, err := newcomer.Put(t.Context(), l.Target("api", key("other")), Spec{Action: Block}, 0); !errors.Is(err, limiter.ErrUndecided) {
			t.Errorf("%s: a new node gets %v", name, err)
		}
		wantLimit(t, l, "api", "acme", 5)
		client.Del(t.Context(), name)
		put(t, l, l.Target("api", key("third")), Spec{Action: Block}, 0)
		refresh(t, newcomer)
		wantLimit(t, newcomer, "api", "acme", 5)
	}
}

// TestLive_foreign_entries has entries that this version does not write. They are left out, one line says
// so, and what is listed can be written as JSON.
func TestLive_foreign_entries(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	a := newNode(t, plain, dial.Standalone, server.Addr)
	put(t, a, a.Target("api", key("acme")), Spec{Action: Limit, Limit: 5}, 0)
	for i, value := range []string{
		"", "0", "0 ", "x {}", "0 {}", `-5 {"do":"block"}`, `9000000000000000000 {"do":"block"}`, `0 {"do":"limit"}`,
		`0 {"do":"limit","limit":-1}`, `0 {"do":"limit","limit":1,"burst":-1}`, `0 {"do":"nuke"}`, `0 {"do":"block"`, "0 null",
		`0 {"do":"block","note":"` + strings.Repeat("n", 1<<20) + `"}`,
	} {
		client.HSet(t.Context(), entriesKey, fmt.Sprint("api:foreign", i), value)
	}
	for _, field := range []string{"", ":", "api:", ":acme", "\x1b]0;owned\x07:acme", "api\n:acme", strings.Repeat("p", 65), "api:" + strings.Repeat("k", 129)} {
		client.HSet(t.Context(), entriesKey, field, `0 {"do":"block"}`)
	}
	unreadable := 0
	store := newStore(t, plain, dial.Connection{Mode: dial.Standalone, Addresses: []string{server.Addr}, Timeout: 10 * time.Second})
	b := NewShared(store, plain, nil, Hooks{OnUnreadable: func(err error) {
		if unreadable++; len(err.Error()) > 100 || strings.Contains(err.Error(), "owned") {
			t.Errorf("the error quotes what it is about: %v", err)
		}
	}})
	refresh(t, b)
	list, err := b.List(t.Context())
	if err != nil || len(list) != 2 || list[0].Client != "acme" || len(list[1].Note) != MaxNote {
		for _, e := range list {
			t.Errorf("listed is %.40q %.40q", e.field(), e.Until)
		}
		t.Errorf("%v", err)
	}
	assert.ErrorIf(t, unreadable != 21, "%d entries are left out, want 21", unreadable)
	for _, e := range list {
		_, err := json.Marshal(e.Until.UTC())
		assert.ErrorIf(t, err != nil, "%v", err)
	}
}

// TestLive_foreign_many has more entries than there can be: no node reads them all.
func TestLive_foreign_many(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	a, b := newNode(t, plain, dial.Standalone, server.Addr), newNode(t, plain, dial.Standalone, server.Addr)
	put(t, a, a.Target("api", key("acme")), Spec{Action: Limit, Limit: 5}, 0)
	refresh(t, b)
	script := `for i = ARGV[1] + 1, ARGV[1] + 10000 do redis.call('HSET', KEYS[1], 'api:' .. i, '0 {"do":"block"}') end return 1`
	for i := 0; i < 200_000; i += 10_000 {
		assert.Must(t, client.Eval(t.Context(), script, []string{entriesKey}, i).Err())
	}
	newcomer := newNode(t, plain, dial.Standalone, server.Addr)
	for range 2 {
		if err := newcomer.Refresh(t.Context()); !errors.Is(err, limiter.ErrUndecided) || !strings.Contains(err.Error(), "200001 overrides") || newcomer.Len() > 0 {
			t.Errorf("a new node reads %d entries: %v", newcomer.Len(), err)
		}
	}
	_, err := newcomer.Put(t.Context(), newcomer.Target("api", key("other")), Spec{Action: Block}, 0)
	assert.ErrorIf(t, !errors.Is(err, limiter.ErrUndecided), "a new node has put one more: %v", err)
	for _, l := range []*Live{a, newcomer, b} {
		refresh(t, l)
		if wantLimit(t, l, "api", "acme", 5); l.Len() != 1 {
			t.Errorf("there are %d overrides", l.Len())
		}
	}
}

// TestLive_lost_before_change loses the entries, as by an eviction, just before a node that knows them, or a
// new one, changes another override. None of them ends by that.
func TestLive_lost_before_change(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	node := func() *Live { return newNode(t, plain, dial.Standalone, server.Addr) }
	for _, by := range []string{"a node that knows them", "a new node"} {
		client.FlushAll(t.Context())
		knows := node()
		put(t, knows, knows.Target("api", key("acme")), Spec{Action: Limit, Limit: 5}, 0)
		client.Del(t.Context(), entriesKey)
		changes := knows
		if by == "a new node" {
			changes = node()
			refresh(t, changes)
			refresh(t, knows) // its next poll
		}
		put(t, changes, changes.Target("api", key("other")), Spec{Action: Limit, Limit: 6}, 0)
		for _, l := range []*Live{knows, changes, node()} {
			refresh(t, l)
			wantLimit(t, l, "api", "acme", 5)
			wantLimit(t, l, "api", "other", 6)
			assert.FatalIf(t, t.Failed(), "%v", by)
		}
	}
}

// follow gives one Redis what another one has, by replication, and ends that.
func follow(t *testing.T, to, from *redistest.Server) {
	t.Helper()
	host, port, _ := strings.Cut(from.Addr, ":")
	client := to.Client(t)
	assert.Must(t, client.ReplicaOf(t.Context(), host, port).Err())
	assert.WaitFor(t, "the replica follows", func() error {
		info, err := client.Info(t.Context(), "replication").Result()
		if err == nil && !strings.Contains(info, "master_link_status:up") {
			err = errors.New(info)
		}
		return err
	})
	assert.Must(t, client.ReplicaOf(t.Context(), "NO", "ONE").Err())
}

// TestLive_promoted has a Redis replaced by a replica that has not received the last change. The node that made it gives it back. Where
// another node has changed something before, that is what stays.
func TestLive_promoted(t *testing.T) {
	t.Parallel()
	for name, changed := range map[string]bool{"restored": false, "changed before": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, replica := redistest.Start(t, "--repl-diskless-sync-delay", "0"), redistest.Start(t, "--repl-diskless-sync-delay", "0")
			a, b := newNode(t, plain, dial.Standalone, server.Addr), newNode(t, plain, dial.Standalone, server.Addr)
			put(t, a, Target{Policy: "api", Client: "kept"}, Spec{Action: Limit, Limit: 5}, 0)
			refresh(t, b)
			follow(t, replica, server)
			put(t, a, Target{Policy: "api", Client: "lost"}, Spec{Action: Limit, Limit: 6}, 0)
			follow(t, server, replica)
			want := int64(6)
			if changed {
				put(t, b, Target{Policy: "api", Client: "new"}, Spec{Action: Block}, 0)
				want = 0
			}
			for _, node := range []*Live{a, b, a} {
				assert.WaitFor(t, "the replica is asked", func() error { return node.Refresh(t.Context()) })
			}
			for _, node := range []*Live{a, b} {
				wantLimit(t, node, "api", "kept", 5)
				wantLimit(t, node, "api", "lost", want)
			}
		})
	}
}

// TestLive_Put_rivals has nodes set and remove the override of one client at once. Each gets the entry that
// it has set itself, also where another one has removed it since.
func TestLive_Put_rivals(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var running sync.WaitGroup
	for i := range 4 {
		l := newNode(t, plain, dial.Standalone, server.Addr)
		target := l.Target("api", key("acme"))
		running.Go(func() {
			for n := range int64(100) {
				limit := 1000*int64(i+1) + n
				e, err := l.Put(t.Context(), target, Spec{Action: Limit, Limit: limit}, 0)
				if err != nil || e == nil || e.Limit != limit {
					t.Errorf("node %d has set %d and gets %+v, %v", i, limit, e, err)
					return
				}
				if err := l.Remove(t.Context(), target); err != nil && !errors.Is(err, ErrAbsent) {
					t.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
}
