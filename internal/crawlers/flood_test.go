package crawlers

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// floodServer has names for a crawler's network, and others for all liars; or no answer for these.
func floodServer(t *testing.T, tarpit bool) *caddytest.DNSServer {
	t.Helper()
	return caddytest.StartDNS(t, func(q caddytest.DNSQuestion) caddytest.DNSReply {
		first, _, _ := strings.Cut(q.Name, ".")
		switch {
		case q.Type != "PTR":
			return caddytest.DNSReply{Addresses: []string{"66.249.66." + strings.TrimPrefix(first, "crawl-")}}
		case strings.HasSuffix(q.Name, ".66.249.66.in-addr.arpa."):
			return caddytest.DNSReply{Delay: 20 * time.Millisecond, PTR: []string{"crawl-" + first + ".googlebot.com."}}
		}
		return caddytest.DNSReply{Delay: 20 * time.Millisecond, Drop: tarpit, PTR: []string{"dsl.isp.example."}}
	})
}

// mostAsks is how often a crawler may ask in vain. Where all liars come from other networks one in 25 questions finds room; a busy
// machine asks so rarely that the time alone says nothing.
const mostAsks = 1500

// TestFlood has liars come with 5,000 new addresses a second, and a true crawler in their midst, which asks again and again.
func TestFlood(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, test := range []struct {
		name          string
		networks      int
		known, tarpit bool
		within        time.Duration
	}{
		{"of a hundred networks", 100, false, false, 5 * time.Second},
		{"each of another network", 1 << 20, false, false, 20 * time.Second},
		{"the crawler's network is known", 1 << 20, true, false, 2 * time.Second},
		{"of networks whose names never answer", 8, false, true, 5 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := floodServer(t, test.tarpit)
			l := NewLookups(LookupOptions{Resolver: NewResolver(server.Addr), Suffixes: []string{".googlebot.com"}})
			defer l.Close()
			if test.known {
				_, got := l.Names(context.Background(), netip.MustParseAddr("66.249.66.200"), time.Minute)
				assert.Equal(t, got, Verified, "another address of the crawler")
			}
			liars, asks, began, verified := 0, 0, time.Now(), time.Duration(0)
			assert.WaitFor(t, "the crawler is verified", func() error {
				for ; liars < int(time.Since(began).Seconds()*5000); liars++ {
					network := liars % test.networks
					l.Names(context.Background(), netip.AddrFrom4([4]byte{
						100 + byte(network>>16), byte(network >> 8), byte(network), byte(liars / test.networks),
					}), 0)
				}
				if liars < 2000 { // the queue is full by then
					return fmt.Errorf("%d liars", liars)
				}
				asks++
				if _, got := l.Names(context.Background(), googlebot, 0); got != Verified {
					return fmt.Errorf("it is %v", got)
				}
				verified = time.Since(began)
				return nil
			})
			asked := 0
			for _, q := range server.Asked() {
				if q.Type == "PTR" {
					asked++
				}
			}
			t.Logf("verified after %v and %d questions of its own, %d liars, %d questions, %+v", verified.Round(time.Millisecond), asks, liars, asked, l.State())
			assert.ErrorIf(t, verified > test.within && asks > mostAsks, "it takes %v and %d questions", verified, asks)
			// Each look-up may ask twice, where no answer comes in time.
			most := (burst + int(time.Since(began).Seconds()*rate) + 1) * 2
			assert.ErrorIf(t, asked > most, "%d questions in %v", asked, time.Since(began))
		})
	}
}
