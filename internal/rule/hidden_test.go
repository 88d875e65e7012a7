package rule

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestSet_WatchHidden has denials of rules: each of the first thousand must come from one private address without a header
// that names a client.
func TestSet_WatchHidden(t *testing.T) {
	const gateway = "172.17.0.1"
	for _, test := range []struct {
		name, key, client string
		denials           int
		other, header     string // of the last of the first thousand
		want              int32
	}{
		{"one address", "{http.vars.client_ip}", gateway, 3000, "", "", 1},
		{"the connection's", "a-{http.request.remote.host}", "::ffff:" + gateway, 1000, "", "", 1},
		{"of IPv6", "{http.vars.client_ip}", "fd00::1", 1000, "", "", 1},
		{"too few", "{http.vars.client_ip}", gateway, 999, "", "", 0},
		{"a public address", "{http.vars.client_ip}", "198.51.100.7", 3000, "", "", 0},
		{"this machine", "{http.vars.client_ip}", "127.0.0.1", 3000, "", "", 0},
		{"no address", "{http.vars.client_ip}", "@", 3000, "", "", 0},
		{"another client", "{http.vars.client_ip}", gateway, 3000, "172.17.0.2", "", 0},
		{"X-Forwarded-For", "{http.vars.client_ip}", gateway, 3000, "", "X-Forwarded-For", 0},
		{"Forwarded", "{http.vars.client_ip}", gateway, 3000, "", "Forwarded", 0},
		{"another key", "{http.auth.user.id}", gateway, 3000, "", "", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := &Set{Rules: []Rule{{Key: assert.NoError(ParseKey(test.key, Prefixes{}))(t)}}}
			var reports atomic.Int32
			set.WatchHidden(func(*Rule) { reports.Add(1) })
			for i := range test.denials {
				client := test.client
				if i == firstDenials-1 && test.other != "" {
					client = test.other
				}
				r := forwardedRequest(client+":80", client, "")
				if r.Header.Del("X-Forwarded-For"); i == firstDenials-1 && test.header != "" {
					r.Header.Set(test.header, "203.0.113."+strconv.Itoa(i%200))
				}
				set.Rules[0].LookAtDenial(r)
			}
			assert.Equal(t, reports.Load(), test.want, "the number of reports")
		})
	}
}

// TestSet_WatchHidden_concurrent has many denials at once, of which one reports.
func TestSet_WatchHidden_concurrent(t *testing.T) {
	var reports atomic.Int32
	set := &Set{Rules: []Rule{{Key: assert.NoError(ParseKey("{http.vars.client_ip}", Prefixes{}))(t)}}}
	set.WatchHidden(func(*Rule) { reports.Add(1) })
	r := forwardedRequest("10.0.0.1:80", "10.0.0.1", "")
	r.Header.Del("X-Forwarded-For")
	var requests sync.WaitGroup
	for range 8 {
		requests.Go(func() {
			for range firstDenials {
				set.Rules[0].LookAtDenial(r)
			}
		})
	}
	requests.Wait()
	assert.Equal(t, reports.Load(), 1, "the number of reports")
}
