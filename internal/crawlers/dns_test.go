package crawlers

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

var googlebot = netip.MustParseAddr("66.249.66.1")

// TestInquire holds what is made of each kind of answer that Go's resolver reads.
func TestInquire(t *testing.T) {
	const good = "crawl-1.googlebot.com."
	right := caddytest.DNSReply{Addresses: []string{"66.249.66.1"}}
	ptr := func(names ...string) caddytest.DNSReply { return caddytest.DNSReply{PTR: names} }
	var customers, under []string
	for i := range 100 {
		customers = append(customers, fmt.Sprintf("a-rather-long-name-of-a-virtual-host-%d.customers.example.net.", i))
	}
	for i := range 8 {
		under = append(under, fmt.Sprintf("c%d.googlebot.com.", i))
	}
	for _, test := range []struct {
		name         string
		ptr, forward caddytest.DNSReply
		want         Status
		names        int
		tcp          int64
	}{
		{"good", ptr(good), right, Verified, 1, 0},
		{"PTR NXDOMAIN", caddytest.DNSReply{RCode: dnsmessage.RCodeNameError}, right, Forged, 0, 0},
		{"PTR NODATA", caddytest.DNSReply{}, right, Forged, 0, 0},
		{"PTR SERVFAIL", caddytest.DNSReply{RCode: dnsmessage.RCodeServerFailure}, right, Unknown, 0, 0},
		{"PTR REFUSED", caddytest.DNSReply{RCode: dnsmessage.RCodeRefused}, right, Unknown, 0, 0},
		{"PTR NOTIMP", caddytest.DNSReply{RCode: dnsmessage.RCodeNotImplemented}, right, Unknown, 0, 0},
		{"PTR without an answer", caddytest.DNSReply{Drop: true}, right, Unknown, 0, 0},
		{"PTR truncated, whole by TCP", caddytest.DNSReply{Truncated: true, PTR: []string{good}}, right, Verified, 1, 1},
		{"PTR by CNAME", caddytest.DNSReply{CNAME: "1.0-63.66.249.66.in-addr.arpa.", PTR: []string{good}}, right, Verified, 1, 0},
		{"PTR CNAME without a target", caddytest.DNSReply{CNAME: "1.0-63.66.249.66.in-addr.arpa."}, right, Forged, 0, 0},
		{"PTR invalid and good", ptr("bad name!.googlebot.com.", good), right, Verified, 1, 0},
		{"PTR invalid alone", ptr("bad name!.googlebot.com."), right, Unknown, 0, 0},
		{"PTR in upper case", ptr("CRAWL-1.GoogleBot.COM."), right, Verified, 1, 0},
		{"PTR with an underscore", ptr("crawl_1.googlebot.com."), right, Verified, 1, 0},
		{"PTR is the suffix itself", ptr("googlebot.com."), right, Forged, 0, 0},
		{"PTR is the root", ptr("."), right, Forged, 0, 0},
		{"PTR of a look-alike", ptr("fakegooglebot.com."), right, Forged, 0, 0},
		{"PTR with the suffix in front", ptr("crawl.googlebot.com.evil.example."), right, Forged, 0, 0},
		{"two PTR, the second is right", ptr("other.example.net.", good), right, Verified, 1, 0},
		{"forward NXDOMAIN", ptr(good), caddytest.DNSReply{RCode: dnsmessage.RCodeNameError}, Forged, 0, 0},
		{"forward SERVFAIL", ptr(good), caddytest.DNSReply{RCode: dnsmessage.RCodeServerFailure}, Unknown, 0, 0},
		{"forward to another address", ptr(good), caddytest.DNSReply{Addresses: []string{"192.0.2.80"}}, Forged, 0, 0},
		{"forward by CNAME", ptr(good), caddytest.DNSReply{CNAME: "x.google.com.", Addresses: []string{"66.249.66.1"}}, Verified, 1, 0},
		{"101 PTR by TCP, the last is right", caddytest.DNSReply{Truncated: true, PTR: append(customers, good)}, right, Verified, 1, 1},
		{"9 PTR under the suffix", ptr(append(under, good)...), right, Verified, mostNames, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			within := tries[0]
			if test.ptr.Drop {
				within = time.Minute
			}
			server, got := inquireWithin(within, googlebot, func() *caddytest.DNSServer {
				return caddytest.StartDNS(t, func(q caddytest.DNSQuestion) caddytest.DNSReply {
					if q.Type == "PTR" {
						return test.ptr
					}
					return test.forward
				})
			})
			assert.Equal(t, got.status, test.want, "the status")
			assert.Equal(t, len(got.names), test.names, "the confirmed names")
			assert.Equal(t, server.TCP.Load(), test.tcp, "the questions by TCP")
			for _, step := range got.steps {
				assert.ErrorIf(t, step.Err != nil && strings.Contains(step.Err.Error(), "127.0.0.1"), "the step %v names a server", step.Err)
			}
		})
	}
}

// inquireWithin inquires at a server that is started for it, again for up to a minute where that takes too long: on a machine that
// stands still for half a second a question is asked twice, and after two seconds not answered.
func inquireWithin(within time.Duration, address netip.Addr, start func() *caddytest.DNSServer) (server *caddytest.DNSServer, got answer) {
	for first := time.Now(); ; {
		server = start()
		began := time.Now()
		got = inquire(context.Background(), NewResolver(server.Addr), address, []string{".googlebot.com"})
		if time.Since(began) < within || time.Since(first) > time.Minute {
			return server, got
		}
	}
}

// TestInquire_asks_again has the first packet of each question lost.
func TestInquire_asks_again(t *testing.T) {
	t.Parallel()
	names := caddytest.DNSNames(map[string]string{"66.249.66.1": "crawl-1.googlebot.com"})
	_, got := inquireWithin(3*tries[0], googlebot, func() *caddytest.DNSServer {
		var mu sync.Mutex
		seen := map[caddytest.DNSQuestion]bool{}
		return caddytest.StartDNS(t, func(q caddytest.DNSQuestion) caddytest.DNSReply {
			mu.Lock()
			defer mu.Unlock()
			if !seen[q] {
				seen[q] = true
				return caddytest.DNSReply{Drop: true}
			}
			return names(q)
		})
	})
	assert.Equal(t, got.status, Verified, "the status")
}

// TestInquire_asks_once_each has no search domain asked, and no address of the other kind.
func TestInquire_asks_once_each(t *testing.T) {
	t.Parallel()
	for address, kind := range map[string]string{"66.249.66.1": "A", "2001:4860:4801:10::1": "AAAA"} {
		server, got := inquireWithin(tries[0], netip.MustParseAddr(address), func() *caddytest.DNSServer {
			return caddytest.StartDNS(t, caddytest.DNSNames(map[string]string{address: "crawl-1.googlebot.com"}))
		})
		assert.Equal(t, got.status, Verified, "the status")
		want := []caddytest.DNSQuestion{{Type: "PTR", Name: caddytest.ReverseName(address)}, {Type: kind, Name: "crawl-1.googlebot.com."}}
		assert.Equal(t, server.Asked(), want, "the questions")
		assert.Equal(t, got.steps[1].Answers, []string{address}, "the answer of the second step")
	}
}
