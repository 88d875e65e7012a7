package crawlers

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

const browserAgent = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"

// shippedSet is the set of all crawlers of the table, by names alone.
func shippedSet() *Set {
	var all []*Crawler
	for i := range shipped {
		all = append(all, &Crawler{Name: shipped[i].Name, Words: shipped[i].Words, Suffixes: []string{".crawler.example"}})
	}
	return NewSet(all, NewLookups(LookupOptions{Resolver: newWorld(nil)}), 0, func() {})
}

// TestWords_in finds words wherever they are within the bytes that are looked at, also when texts are remembered.
func TestWords_in(t *testing.T) {
	s := shippedSet()
	for range 3 {
		for agent, want := range map[string]string{
			"Googlebot": "[google]", "x googleBOT": "[google]", "Googlebo": "[]", "oogleBot Googlebo": "[]", "": "[]", "G": "[]", browserAgent: "[]",
			"Mozilla/5.0 (compatible; bingbot/2.0) Googlebot GPTBot googlebot": "[google bing openai]",
			strings.Repeat("x", longestAgent-9) + "Googlebot":                  "[google]", strings.Repeat("x", longestAgent-8) + "Googlebot": "[]",
			"Googlebot" + strings.Repeat("x", longestAgent): "[google]", "\xff\xfeGooglebot\x00": "[google]", "Googl\u212Abot": "[]",
		} {
			var got []string
			for _, c := range s.ClaimOf(headerOf(agent)).of {
				got = append(got, c.Name)
			}
			assert.Equal(t, fmt.Sprint(got), want, "the claims of %.40q", agent)
		}
	}
}

// TestWords_remembered has a flood of texts keep no more of them than is allowed, and find the same.
func TestWords_remembered(t *testing.T) {
	s := shippedSet()
	var clients sync.WaitGroup
	for client := range 4 {
		clients.Go(func() {
			for i := range 20_000 {
				agent := fmt.Sprintf("Googlebot %d %d", client, i)
				if got := s.ClaimOf(headerOf(agent)).of; len(got) != 1 || got[0].Name != "google" {
					t.Errorf("%s claims %v", agent, got)
				}
			}
		})
	}
	clients.Wait()
	remembered := len(*s.words.known.Load()) + len(s.words.fresh)
	assert.ErrorIf(t, remembered > mostKnown+mostFresh, "%d texts are remembered", remembered)
}

// TestMemory holds what a million liars leave behind, each with an address and a User-Agent of its own.
func TestMemory(t *testing.T) {
	w := newWorld(map[string]string{})
	w.asked = nil // which would count all addresses
	l := NewLookups(LookupOptions{Resolver: forgetful{}, Suffixes: []string{".googlebot.com"}})
	defer l.Close()
	s := NewSet([]*Crawler{{Name: "google", Words: []string{"Googlebot"}, Suffixes: []string{".googlebot.com"}}}, l, 0, func() {})
	before := heap()
	for i := range 1_000_000 {
		a := netip.AddrFrom4([4]byte{byte(100 + i>>20), byte(i >> 12), byte(i >> 4), byte(i)})
		agent := ""
		if i%64 == 0 { // all of them would take seconds
			agent = fmt.Sprintf("Googlebot %0500d", i)
		} else {
			agent = "Googlebot"
		}
		s.Verify(context.Background(), s.ClaimOf(headerOf(agent)), Sender{Address: a})
		if i%20 == 0 { // as many as hours of a flood would bring
			l.mu.Lock()
			l.entries.put(a, &entry{status: Forged, fresh: l.Now() + 1e15, serves: l.Now() + 2e15})
			l.mu.Unlock()
		}
	}
	used := heap() - before
	t.Logf("%.1f MB; %+v", float64(used)/1e6, l.State())
	assert.ErrorIf(t, used > 20e6, "a million liars take %d bytes", used)
	assert.ErrorIf(t, l.State().Others > mostOthers, "%d addresses are remembered", l.State().Others)
	runtime.KeepAlive(s)
}

// forgetful is a resolver that knows no names, and keeps nothing.
type forgetful struct{}

func (forgetful) LookupAddr(ctx context.Context, _ string) ([]string, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (forgetful) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) { return nil, nil }

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // it is no such size
}

// BenchmarkClaimOf is what a browser's request costs: a text that is known, and one that is not.
func BenchmarkClaimOf(b *testing.B) {
	s := shippedSet()
	agents := make([]string, 1000)
	for i := range agents {
		agents[i] = fmt.Sprintf("%s r/%d", browserAgent, i)
		for range 20 {
			s.ClaimOf(headerOf(agents[i]))
		}
	}
	b.Run("known", func(b *testing.B) {
		header := headerOf("")
		agent := &header["User-Agent"][0]
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			*agent = agents[i%len(agents)]
			s.ClaimOf(header)
		}
	})
	b.Run("unknown", func(b *testing.B) {
		for b.Loop() {
			s.words.find(browserAgent)
		}
	})
}

// BenchmarkVerify is what a request of a crawler costs whose address is known.
func BenchmarkVerify(b *testing.B) {
	s := shippedSet()
	from := Sender{Address: googlebot}
	s.Lookups.entries.put(googlebot, &entry{names: []string{"a.crawler.example"}, status: Verified, fresh: 1 << 62, serves: 1 << 62})
	header := headerOf("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)")
	b.ReportAllocs()
	for b.Loop() {
		s.Verify(context.Background(), s.ClaimOf(header), from)
	}
}
