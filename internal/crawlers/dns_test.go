package crawlers

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/crawlers/dnstest"
)

var googlebot = netip.MustParseAddr("66.249.66.1")

// TestInquire holds what is made of each kind of answer that Go's resolver reads.
func TestInquire(t *testing.T) {
	const good = "crawl-1.googlebot.com."
	right := dnstest.Reply{Addresses: []string{"66.249.66.1"}}
	ptr := func(names ...string) dnstest.Reply { return dnstest.Reply{PTR: names} }
	var customers, under []string
	for i := range 100 {
		customers = append(customers, fmt.Sprintf("a-rather-long-name-of-a-virtual-host-%d.customers.example.net.", i))
	}
	for i := range 8 {
		under = append(under, fmt.Sprintf("c%d.googlebot.com.", i))
	}
	for _, test := range []struct {
		name         string
		ptr, forward dnstest.Reply
		want         Status
		names        int
		tcp          int64
	}{
		{"good", ptr(good), right, Verified, 1, 0},
		{"PTR NXDOMAIN", dnstest.Reply{RCode: dnsmessage.RCodeNameError}, right, Forged, 0, 0},
		{"PTR NODATA", dnstest.Reply{}, right, Forged, 0, 0},
		{"PTR SERVFAIL", dnstest.Reply{RCode: dnsmessage.RCodeServerFailure}, right, Unknown, 0, 0},
		{"PTR REFUSED", dnstest.Reply{RCode: dnsmessage.RCodeRefused}, right, Unknown, 0, 0},
		{"PTR NOTIMP", dnstest.Reply{RCode: dnsmessage.RCodeNotImplemented}, right, Unknown, 0, 0},
		{"PTR without an answer", dnstest.Reply{Drop: true}, right, Unknown, 0, 0},
		{"PTR truncated, whole by TCP", dnstest.Reply{Truncated: true, PTR: []string{good}}, right, Verified, 1, 1},
		{"PTR by CNAME", dnstest.Reply{CNAME: "1.0-63.66.249.66.in-addr.arpa.", PTR: []string{good}}, right, Verified, 1, 0},
		{"PTR CNAME without a target", dnstest.Reply{CNAME: "1.0-63.66.249.66.in-addr.arpa."}, right, Forged, 0, 0},
		{"PTR invalid and good", ptr("bad name!.googlebot.com.", good), right, Verified, 1, 0},
		{"PTR invalid alone", ptr("bad name!.googlebot.com."), right, Unknown, 0, 0},
		{"PTR in upper case", ptr("CRAWL-1.GoogleBot.COM."), right, Verified, 1, 0},
		{"PTR with an underscore", ptr("crawl_1.googlebot.com."), right, Verified, 1, 0},
		{"PTR is the suffix itself", ptr("googlebot.com."), right, Forged, 0, 0},
		{"PTR is the root", ptr("."), right, Forged, 0, 0},
		{"PTR of a look-alike", ptr("fakegooglebot.com."), right, Forged, 0, 0},
		{"PTR with the suffix in front", ptr("crawl.googlebot.com.evil.example."), right, Forged, 0, 0},
		{"two PTR, the second is right", ptr("other.example.net.", good), right, Verified, 1, 0},
		{"forward NXDOMAIN", ptr(good), dnstest.Reply{RCode: dnsmessage.RCodeNameError}, Forged, 0, 0},
		{"forward SERVFAIL", ptr(good), dnstest.Reply{RCode: dnsmessage.RCodeServerFailure}, Unknown, 0, 0},
		{"forward to another address", ptr(good), dnstest.Reply{Addresses: []string{"192.0.2.80"}}, Forged, 0, 0},
		{"forward by CNAME", ptr(good), dnstest.Reply{CNAME: "x.google.com.", Addresses: []string{"66.249.66.1"}}, Verified, 1, 0},
		{"101 PTR by TCP, the last is right", dnstest.Reply{Truncated: true, PTR: append(customers, good)}, right, Verified, 1, 1},
		{"9 PTR under the suffix", ptr(append(under, good)...), right, Verified, mostNames, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := dnstest.New(t, func(q dnstest.Question) dnstest.Reply {
				if q.Type == "PTR" {
					return test.ptr
				}
				return test.forward
			})
			got := inquire(context.Background(), NewResolver(server.Addr), googlebot, []string{".googlebot.com"})
			assert.Equal(t, got.status, test.want, "the status")
			assert.Equal(t, len(got.names), test.names, "the confirmed names")
			assert.Equal(t, server.TCP.Load(), test.tcp, "the questions by TCP")
			for _, step := range got.steps {
				assert.ErrorIf(t, step.Err != nil && strings.Contains(step.Err.Error(), "127.0.0.1"), "the step %v names a server", step.Err)
			}
		})
	}
}

// TestInquire_asks_again has the first packet of each question lost.
func TestInquire_asks_again(t *testing.T) {
	t.Parallel()
	names := dnstest.Names(map[string]string{"66.249.66.1": "crawl-1.googlebot.com"})
	var mu sync.Mutex
	seen := map[dnstest.Question]bool{}
	server := dnstest.New(t, func(q dnstest.Question) dnstest.Reply {
		mu.Lock()
		defer mu.Unlock()
		if !seen[q] {
			seen[q] = true
			return dnstest.Reply{Drop: true}
		}
		return names(q)
	})
	got := inquire(context.Background(), NewResolver(server.Addr), googlebot, []string{".googlebot.com"})
	assert.Equal(t, got.status, Verified, "the status")
}

// TestInquire_asks_once_each has no search domain asked, and no address of the other kind.
func TestInquire_asks_once_each(t *testing.T) {
	t.Parallel()
	for address, kind := range map[string]string{"66.249.66.1": "A", "2001:4860:4801:10::1": "AAAA"} {
		server := dnstest.New(t, dnstest.Names(map[string]string{address: "crawl-1.googlebot.com"}))
		got := inquire(context.Background(), NewResolver(server.Addr), netip.MustParseAddr(address), []string{".googlebot.com"})
		assert.Equal(t, got.status, Verified, "the status")
		want := []dnstest.Question{{Type: "PTR", Name: dnstest.ReverseName(address)}, {Type: kind, Name: "crawl-1.googlebot.com."}}
		assert.Equal(t, server.Asked(), want, "the questions")
		assert.Equal(t, got.steps[1].Answers, []string{address}, "the answer of the second step")
	}
}
