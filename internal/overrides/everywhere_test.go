package overrides

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// everywhereOf is the target of a block for all policies.
func everywhereOf(text string) Target { return Target{Range: netip.MustParsePrefix(text)} }

// TestEverywhere_random compares what blocks an address with each block in turn, while some have ended.
func TestEverywhere_random(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	blocked := 0
	for range assert.Rounds[int](300, 3000) {
		l, now := NewLocal(Hooks{}), time.Unix(1_000_000, 0)
		entries := map[string]*Entry{}
		for range 1 + random.IntN(12) {
			e := &Entry{Target: Target{Range: randomRange(random)}, Spec: Spec{Action: Block}}
			if seconds := random.IntN(6); seconds > 0 {
				e.Until = now.Add(time.Duration(seconds) * time.Second)
			}
			entries[e.field()] = e
		}
		l.Applied.Store(newSnapshot(entries))
		l.learnTime(now.Add(2500 * time.Millisecond))
		for range 100 {
			address := randomRange(random).Addr()
			var want *Entry
			for _, e := range entries {
				if l.applies(e) && e.Range.Contains(address) {
					want = Longer(want, e)
				}
			}
			got := l.BlockOf(address)
			if (got == nil) != (want == nil) || got != nil && !got.Until.Equal(want.Until) {
				t.Fatalf("%v is blocked by %+v, want %+v of %d", address, got, want, len(entries))
			}
			if got != nil {
				blocked++
			}
		}
	}
	assert.ErrorIf(t, blocked < 1000, "only %d addresses were blocked", blocked)
}

// TestEverywhere_address compares whole addresses, IPv4 in mapped form as IPv4, without zones.
func TestEverywhere_address(t *testing.T) {
	l := NewLocal(Hooks{})
	var none *Live
	assert.ErrorIf(t, none.BlocksEverywhere() || l.BlocksEverywhere(), "nothing is blocked, and something is")
	for _, text := range []string{"203.0.113.7/32", "198.51.100.0/24", "2001:db8::5/128", "fe80::1/128", "64:ff9b::/96"} {
		put(t, l, everywhereOf(text), Spec{Action: Block}, 0)
	}
	put(t, l, l.Target("api", key("192.0.2.1")), Spec{Action: Block}, 0)
	for text, want := range map[string]bool{
		"203.0.113.7": true, "::ffff:203.0.113.7": true, "203.0.113.8": false, "198.51.100.77": true, "2001:db8::5": true, "2001:db8::6": false,
		"fe80::1%eth0": true, "64:ff9b::cb00:7108": true, "::": false, "192.0.2.1": false,
	} {
		got := l.BlockOf(netip.MustParseAddr(text))
		assert.ErrorIf(t, (got != nil) != want, "%s is blocked: %v", text, got != nil)
	}
	assert.ErrorIf(t, l.BlockOf(netip.Addr{}) != nil, "a request without an address is blocked")
	for text, want := range map[string]string{"203.0.113.7/32": "all", "203.0.113.0/24": "some", "2001:db8::/64": "some", "198.51.100.16/28": "all", "10.0.0.0/8": ""} {
		all, some := l.BlockOfNetwork(netip.MustParsePrefix(text))
		got := ""
		if all != nil {
			got = "all"
		} else if some != nil {
			got = "some"
		}
		assert.Equal(t, got, want, "what of %s is blocked", text)
	}
	assert.ErrorIf(t, find(l, "api", key("203.0.113.7")) != nil || l.Has("") || l.Blocks(""), "the block is one of a policy")
	assert.Equal(t, l.Len(), 6, "overrides")
}

// TestEverywhere_stores sets a block on one node, which another one reads and removes; an address that ends and a range.
func TestEverywhere_stores(t *testing.T) {
	server := redistest.Start(t)
	address := netip.MustParseAddr("203.0.113.7")
	for name, format := range map[string]limiter.KeyFormat{"plain": plain, "hashed": {Prefix: "hashed", Secret: "secret"}} {
		a, b := newNode(t, format, dial.Standalone, server.Addr), newNode(t, format, dial.Standalone, server.Addr)
		for _, text := range []string{"203.0.113.7/32", "203.0.0.0/16"} {
			put(t, a, everywhereOf(text), Spec{Action: Block, Note: "n"}, time.Hour)
			refresh(t, b)
			e := b.BlockOf(address)
			assert.FatalIf(t, e == nil || !e.Everywhere() || e.Note != "n" || e.All() || e.Until.IsZero() || b.Len() != 1, "%s: the other node has %+v", name, e)
			assert.Must(t, b.Remove(t.Context(), everywhereOf(text)))
			refresh(t, a)
			assert.ErrorIf(t, a.BlocksEverywhere() || a.Len() != 0, "%s: it blocks after it was removed", name)
		}
		_, err := a.PutOnNode(everywhereOf("203.0.113.7/32"), Spec{Action: Block}, 0)
		assert.ErrorIf(t, err != nil || a.BlockOf(address) == nil, "%s: %v, or the node alone does not block", name, err)
		assert.ErrorIf(t, !a.RemoveOnNode(everywhereOf("203.0.113.7/32")) || a.BlocksEverywhere(), "%s: the node goes on to block", name)
	}
}

// TestEverywhere_stored shows what lies in Redis. The field has an empty policy, which a version without such blocks refuses, as
// [parseField] did: the entry is left out there, with a line in the log, and stays.
func TestEverywhere_stored(t *testing.T) {
	server := redistest.Start(t)
	a := newNode(t, plain, dial.Standalone, server.Addr)
	put(t, a, everywhereOf("203.0.113.7/32"), Spec{Action: Block, Note: "scrapes"}, 0)
	put(t, a, everywhereOf("2001:db8::/32"), Spec{Action: Block}, 0)
	stored := server.Client(t).HGetAll(t.Context(), entriesKey).Val()
	assert.Equal(t, stored["/203.0.113.7/32"], `0 {"do":"block","note":"scrapes"}`, "an address in Redis")
	assert.Equal(t, stored["/2001:db8::/32"], `0 {"do":"block"}`, "a range in Redis")
	for field := range stored {
		policy, _, _ := strings.Cut(field, "/")
		assert.ErrorIf(t, limiter.ValidName(policy), "an earlier version takes %s for one of policy %q", field, policy)
		target, ok := parseField(field)
		assert.ErrorIf(t, !ok || target.field() != field || !target.Everywhere() || target.All(), "%s is read as %+v", field, target)
	}
	for _, value := range []string{`0 {"do":"exempt"}`, `0 {"do":"limit","limit":5}`} {
		_, err := parseEntry("/10.0.0.0/8", value)
		assert.ErrorIf(t, err == nil, "a range for all policies does %s", value)
	}
}

// TestEverywhere_kept has nodes write beside an entry that they cannot read: it stays, and goes back to a Redis that has lost it.
func TestEverywhere_kept(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	const unread = "?203.0.113.7/32" // no version writes this; one without blocks for all policies leaves theirs out alike
	unreadable := 0
	a := newNode(t, plain, dial.Standalone, server.Addr)
	a.hooks.OnUnreadable = func(error) { unreadable++ }
	put(t, a, a.Target("api", key("acme")), Spec{Action: Block}, 0)
	client.HSet(t.Context(), entriesKey, unread, `0 {"do":"block"}`)
	client.Set(t.Context(), versionKey, fmt.Sprintf("%d 2", time.Now().UnixMicro()+1), 0)
	refresh(t, a)
	assert.Equal(t, unreadable, 1, "entries that are left out")
	put(t, a, everywhereOf("203.0.113.7/32"), Spec{Action: Block}, 0)
	client.FlushAll(t.Context())
	refresh(t, a)
	assert.Equal(t, client.HGet(t.Context(), entriesKey, unread).Val(), `0 {"do":"block"}`, "the entry after Redis has lost it")
	assert.Equal(t, client.HLen(t.Context(), entriesKey).Val(), 3, "entries")
}

// TestEverywhere_full has as many ranges as there may be: addresses are none of these, and count among all overrides.
func TestEverywhere_full(t *testing.T) {
	l := NewLocal(Hooks{})
	stored := map[string]string{}
	for i := range maxRanges {
		stored[fmt.Sprintf("/10.%d.%d.0/24", i/256, i%256)] = format(time.Time{}, `{"do":"block"}`)
	}
	l.apply(holding{version: version{number: 1, count: maxRanges}, stored: stored})
	for _, target := range []Target{everywhereOf("192.0.2.0/24"), rangeOf("192.0.2.7/32")} {
		_, err := l.Put(t.Context(), target, Spec{Action: Block}, 0)
		assert.ErrorIf(t, !errors.Is(err, ErrManyRanges), "one more: %v", err)
	}
	for i := maxRanges; i < maxEntries; i++ {
		stored[fmt.Sprintf("/11.%d.%d.7/32", i/256, i%256)] = format(time.Time{}, `{"do":"block"}`)
	}
	l.apply(holding{version: version{number: 2, count: maxEntries}, stored: stored})
	_, err := l.Put(t.Context(), everywhereOf("192.0.2.7/32"), Spec{Action: Block}, 0)
	assert.ErrorIf(t, !errors.Is(err, ErrFull), "one more address: %v", err)
	assert.Must(t, l.Remove(t.Context(), everywhereOf("11.39.15.7/32")))
	put(t, l, everywhereOf("192.0.2.7/32"), Spec{Action: Block}, 0)
}

// TestEverywhere_told has changes reported without a policy's name.
func TestEverywhere_told(t *testing.T) {
	var told []string
	l := NewLocal(Hooks{OnChange: func(policy string, keys ...limiter.EncodedKey) {
		told = append(told, fmt.Sprintf("%q %d", policy, len(keys)))
	}})
	put(t, l, everywhereOf("192.0.2.7/32"), Spec{Action: Block}, 0)
	assert.Must(t, l.Remove(t.Context(), everywhereOf("192.0.2.7/32")))
	assert.Equal(t, strings.Join(told, ", "), `"" 0, "" 0`, "changes")
}

// BenchmarkLive_BlockOf looks addresses up among 9,000 others and as many ranges as there may be.
func BenchmarkLive_BlockOf(b *testing.B) {
	l, entries := NewLocal(Hooks{}), map[string]*Entry{}
	add := func(text string) {
		e := &Entry{Target: everywhereOf(text), Spec: Spec{Action: Block}}
		entries[e.field()] = e
	}
	for i := range maxEntries - maxRanges {
		add(fmt.Sprintf("10.%d.%d.7/32", i/256, i%256))
	}
	for i := range maxRanges {
		add(fmt.Sprintf("2001:db8:%x::/48", i))
	}
	for name, snapshot := range map[string]*snapshot{"none": nil, "10,000": newSnapshot(entries)} {
		l.Applied.Store(snapshot)
		for _, text := range []string{"10.7.7.7", "192.0.2.1", "2001:db8:1f4:5::1", "2a00::1"} {
			b.Run(name+"/"+text, func(b *testing.B) {
				b.ReportAllocs()
				address := netip.MustParseAddr(text)
				for b.Loop() {
					l.BlockOf(address)
				}
			})
		}
	}
}
