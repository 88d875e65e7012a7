package overrides

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// rangeOf is the target of a range in the policy api.
func rangeOf(text string) Target { return Target{Policy: "api", Range: netip.MustParsePrefix(text)} }

// blocking returns the block of an address in the policy api.
func blocking(l *Live, address netip.Addr) *Entry {
	_, ranges := l.Find("api", key("any"))
	if ranges == nil {
		return nil
	}
	return l.Blocking(ranges, address)
}

// randomRange draws a range among few bits, so that many of them hold one another and end together.
func randomRange(random *rand.Rand) netip.Prefix {
	const top, low = 3, 4 // bits that differ at either end
	if random.IntN(2) == 0 {
		address := netip.AddrFrom4([4]byte{byte(random.IntN(1<<top) << 5), 0, 0, byte(random.IntN(1 << low))})
		prefix, _ := address.Prefix([]int{0, 1, 2, 3, 28, 29, 30, 31, 32}[random.IntN(9)])
		return prefix
	}
	address := netip.AddrFrom16([16]byte{0: byte(random.IntN(1<<top) << 5), 15: byte(random.IntN(1 << low))})
	prefix, _ := address.Prefix([]int{0, 1, 2, 3, 124, 125, 126, 127, 128}[random.IntN(9)])
	return prefix
}

// TestRanges_random compares what holds an address with each range in turn, while some have ended.
func TestRanges_random(t *testing.T) {
	blocked := 0
	for seed, play := range assert.Plays(t, 300, 3000) {
		random := rand.New(rand.NewPCG(seed, 2))
		l, now := NewLocal(Hooks{}), time.Unix(1_000_000, 0)
		entries := map[string]*Entry{}
		for range 1 + random.IntN(12) {
			e := &Entry{Target: Target{Policy: "api", Range: randomRange(random)}, Spec: Spec{Action: Block}}
			if seconds := random.IntN(6); seconds > 0 {
				e.Until = now.Add(time.Duration(seconds) * time.Second)
			}
			entries[e.field()] = e
			play.Step("a block of %v until %v", e.Range, e.Until)
		}
		l.Applied.Store(newSnapshot(entries))
		l.learnTime(now.Add(2500 * time.Millisecond))
		for range 200 {
			address := randomRange(random).Addr()
			if random.IntN(4) == 0 {
				address = lastOf(randomRange(random))
			}
			play.Step("which of %d holds %v", len(entries), address)
			var want *Entry
			for _, e := range entries {
				if l.applies(e) && e.Range.Contains(address) {
					want = Longer(want, e)
				}
			}
			got := blocking(l, address)
			if (got == nil) != (want == nil) || got != nil && !got.Until.Equal(want.Until) {
				t.Fatalf("%v is held by %+v, want %+v of %d", address, got, want, len(entries))
			}
			if got != nil {
				blocked++
			}
		}
	}
	assert.ErrorIf(t, assert.AllSeeds() && blocked < 1000, "only %d addresses were blocked", blocked)
}

// TestRanges_address compares addresses as they come, but for a zone and for IPv4 in its mapped form.
func TestRanges_address(t *testing.T) {
	l := NewLocal(Hooks{})
	put(t, l, rangeOf("203.0.113.0/24"), Spec{Action: Block}, 0)
	put(t, l, rangeOf("fe80::/16"), Spec{Action: Block}, 0)
	put(t, l, rangeOf("255.255.255.0/24"), Spec{Action: Block}, 0)
	for text, want := range map[string]bool{
		"203.0.113.0": true, "203.0.113.255": true, "203.0.112.255": false, "203.0.114.0": false, "::ffff:203.0.113.7": true,
		"64:ff9b::203.0.113.7": false, "2002:cb00:7107::1": false, "fe80::1%eth0": true, "fe7f::1": false, "0.0.0.0": false, "255.255.255.255": true, "::": false,
	} {
		got := blocking(l, netip.MustParseAddr(text))
		assert.ErrorIf(t, (got != nil) != want, "%s is blocked: %v", text, got != nil)
	}
	assert.Must(t, l.Remove(t.Context(), rangeOf("203.0.113.0/24")))
	assert.ErrorIf(t, blocking(l, netip.MustParseAddr("203.0.113.7")) != nil || !l.Blocks("api") || l.Len() != 2, "a removed range blocks")
}

// TestRanges_stores sets ranges on one node, which another one reads, and removes them there.
func TestRanges_stores(t *testing.T) {
	server := redistest.Start(t)
	address := netip.MustParseAddr("203.0.113.7")
	for name, format := range map[string]limiter.KeyFormat{"plain": plain, "hashed": {Prefix: "hashed", Secret: "secret"}} {
		a, b := newNode(t, format, dial.Standalone, server.Addr), newNode(t, format, dial.Standalone, server.Addr)
		put(t, a, rangeOf("203.0.113.0/24"), Spec{Action: Block, Note: "n"}, time.Hour)
		put(t, a, a.Target("api", key("203.0.113.0/24")), Spec{Action: Limit, Limit: 5}, 0) // a client's key, which is no range
		refresh(t, b)
		e := blocking(b, address)
		assert.FatalIf(t, e == nil || e.Note != "n" || e.All() || e.Until.IsZero() || b.Len() != 2, "%s: the other node has %+v", name, e)
		wantLimit(t, b, "api", "203.0.113.0/24", 5)
		assert.Must(t, b.Remove(t.Context(), rangeOf("203.0.113.0/24")))
		refresh(t, a)
		assert.ErrorIf(t, blocking(a, address) != nil || a.Len() != 1, "%s: it blocks after it was removed", name)
	}
}

// TestRanges_full has as many ranges as there may be.
func TestRanges_full(t *testing.T) {
	server := redistest.Start(t)
	for _, l := range []*Live{NewLocal(Hooks{}), newNode(t, plain, dial.Standalone, server.Addr)} {
		stored := map[string]string{}
		for i := range maxRanges {
			stored[fmt.Sprintf("api/10.%d.%d.0/24", i/256, i%256)] = format(time.Time{}, `{"do":"block"}`)
		}
		l.apply(holding{version: version{number: 1, count: maxRanges}, stored: stored})
		if l.store != nil {
			refresh(t, l) // restores them in Redis
		}
		_, err := l.Put(t.Context(), rangeOf("192.0.2.0/24"), Spec{Action: Block}, 0)
		assert.ErrorIf(t, !errors.Is(err, ErrManyRanges), "one more: %v", err)
		_, err = l.PutOnNode(rangeOf("192.0.2.0/24"), Spec{Action: Block}, 0)
		assert.ErrorIf(t, !errors.Is(err, ErrManyRanges), "one more on the node: %v", err)
		put(t, l, l.Target("api", key("acme")), Spec{Action: Block}, 0) // no range
		put(t, l, rangeOf("10.0.7.0/24"), Spec{Action: Block}, time.Hour)
		assert.Must(t, l.Remove(t.Context(), rangeOf("10.0.8.0/24")))
		put(t, l, rangeOf("192.0.2.0/24"), Spec{Action: Block}, 0)
		assert.Equal(t, l.Len(), maxRanges+1, "how many apply")
	}
}

// TestRanges_fields reads the names of ranges in Redis. A version without ranges takes what stands before the first colon for the
// policy, which no such name is, and so leaves them out.
func TestRanges_fields(t *testing.T) {
	for _, field := range []string{"api/203.0.113.0/24", "api/2001:db8::/32", "api/0.0.0.0/0"} {
		target, ok := parseField(field)
		assert.ErrorIf(t, !ok || target.field() != field || target.All() || target.Client != "", "%s is read as %+v", field, target)
		assert.ErrorIf(t, limiter.ValidName(field), "an earlier version takes %s for a policy", field)
	}
	for _, field := range []string{
		"api/", "/", "/10.0.0.1", "/10.0.0.1/8", "//10.0.0.0/8", "/::ffff:10.0.0.1/128", "/fe80::1%eth0/128", "api/10.0.0.1", "api/10.0.0.1/8", "api/::ffff:10.0.0.0/104", "api/2001:DB8::/32", "api/10.0.0.0/33", "api/fe80::%eth0/64", "a b/10.0.0.0/8",
	} {
		_, ok := parseField(field)
		assert.ErrorIf(t, ok, "%s is read", field)
	}
	for _, value := range []string{`0 {"do":"exempt"}`, `0 {"do":"limit","limit":5}`} {
		_, err := parseEntry("api/10.0.0.0/8", value)
		assert.ErrorIf(t, err == nil, "a range does %s", value)
	}
	target, ok := parseField("api:10.0.0.0/8")
	assert.ErrorIf(t, !ok || target.Range.IsValid() || target.Client != "10.0.0.0/8", "a client is read as %+v", target)
}

// BenchmarkRanges looks an address up in as many ranges as there may be.
func BenchmarkRanges(b *testing.B) {
	l := NewLocal(Hooks{})
	entries := map[string]*Entry{}
	for i := range maxRanges {
		text := fmt.Sprintf("10.%d.%d.0/24", i/200, i%200)
		if i%2 == 0 {
			text = fmt.Sprintf("2001:db8:%x::/48", i)
		}
		e := &Entry{Target: rangeOf(text), Spec: Spec{Action: Block}}
		entries[e.field()] = e
	}
	l.Applied.Store(newSnapshot(entries))
	_, ranges := l.Find("api", key("any"))
	for _, text := range []string{"10.2.77.5", "192.0.2.1", "2001:db8:1f4:5::1", "2a00::1"} {
		b.Run(text, func(b *testing.B) {
			address := netip.MustParseAddr(text)
			for b.Loop() {
				l.Blocking(ranges, address)
			}
		})
	}
}
