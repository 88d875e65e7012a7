package requests

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestUnbelieved_warning sends 100 requests as a proxy does, which Caddy believes or does not.
func TestUnbelieved_warning(t *testing.T) {
	t.Parallel()
	const (
		trusted = "servers { trusted_proxies static private_ranges }"
		limit   = "redis_ratelimit {client_ip} 1000 24h"
		client  = "X-Forwarded-For: 203.0.113.9"
	)
	n := caddytest.Start(t, caddytest.Config("", "respond ok"))
	warnings := func() []caddytest.LogLine {
		return n.Log.Lines(func(l caddytest.LogLine) bool {
			return l.Level == "warn" && strings.HasPrefix(l.Message, "each of the first 100 requests came with a public address")
		})
	}
	for _, test := range []struct {
		name, global, site string
		headers            []string // of all requests; those of the 50th are in other
		other              []string
		want               int
	}{
		{"a proxy", "", limit, []string{client}, nil, 1},
		{"a proxy behind proxies", "", limit, []string{"X-Forwarded-For: 10.0.0.1, 203.0.113.9, 10.0.0.2:4711"}, nil, 1},
		{"several lines", "", limit, []string{"X-Forwarded-For: 10.0.0.1", "X-Forwarded-For: 2a00:1450::1"}, nil, 1},
		{"Forwarded", "", limit, []string{`Forwarded: by=10.0.0.1;For="[2a00:1450::1]:4711";proto=https, for=unknown`}, nil, 1},
		{"all are exempt", "", "redis_ratelimit {header.X-Key} 1000 24h { exempt private_ranges }", []string{client}, nil, 1},
		{"two handlers", "", limit + "\nredis_ratelimit {client_ip} 999 24h { name second }", []string{client}, nil, 1},
		{"by the connection's address", "", "redis_ratelimit {remote_host} 1000 24h", []string{client}, nil, 1},
		{"trusted", trusted, limit, []string{client}, nil, 0},
		{"one without", "", limit, []string{client}, []string{"X-Other: a"}, 0},
		{"one that Caddy believes", "servers { trusted_proxies static private_ranges; client_ip_headers X-Real-IP }", limit, []string{client}, []string{client, "X-Real-IP: 203.0.113.8"}, 0},
		{"private addresses", "", limit, []string{"X-Forwarded-For: 192.168.1.9, 100.64.0.1, fd00::1, ::1, fe80::1"}, nil, 0},
		{"what is no address", "", limit, []string{"X-Forwarded-For: unknown, _hidden, 1.2.3, 203.0.113.9.1"}, nil, 0},
		{"the connection's address", "", limit, []string{"X-Forwarded-For: 127.0.0.1"}, nil, 0},
		{"without", "", limit, nil, nil, 0},
		{"by a key without addresses", "", "redis_ratelimit {header.X-Key} 1000 24h", []string{client}, nil, 0},
	} {
		before := len(warnings())
		n.Reload(t, caddytest.Config(test.global, test.site+"\nrespond \""+test.name+"\"")) // an equal configuration would not be loaded
		n.AwaitReload(t)
		n.GetTimes(t, 49, "/", test.headers...)
		if test.other == nil {
			test.other = test.headers
		}
		n.Get(t, "/", test.other...)
		n.GetTimes(t, 49, "/", test.headers...)
		early := warnings()[before:]
		assert.ErrorIf(t, len(early) > 0, "%s: %v before the 100th request", test.name, early)
		n.GetTimes(t, 110, "/", test.headers...)
		got := warnings()[before:]
		assert.ErrorIf(t, len(got) != test.want, "%s: the log has %v, want %d warnings", test.name, got, test.want)
		for _, line := range got {
			assert.ErrorIf(t, strings.Contains(line.Text, "203.0.113") || !strings.Contains(line.Text, "trusted_proxies"), "%s: the warning is %s", test.name, line.Text)
		}
	}
}

// TestCountIf_unmatched sends 1,000 log-ins to a site that answers none as count_if says.
func TestCountIf_unmatched(t *testing.T) {
	t.Parallel()
	const site = `redis_ratelimit {query.k} 5 24h {
		name %s
		count_if status 401
	}
	redis_ratelimit /second {query.k} 5 24h {
		name %[1]s
		count_if status 401
	}
	respond /302 302
	respond /401 401
	error /error 422
	respond ok`
	n := caddytest.Start(t, caddytest.Config("", "respond ok"))
	lines := func(policy string) []caddytest.LogLine {
		return n.Log.Lines(func(l caddytest.LogLine) bool {
			return l.Level == "info" && strings.HasPrefix(l.Message, "count_if matched none of the first 1,000 responses") && strings.Contains(l.Text, `"policy":"`+policy+`"`)
		})
	}
	send := func(times int, method, path string) {
		t.Helper()
		for range times {
			n.Send(t, method, n.URL+path, "")
		}
	}
	for _, test := range []struct {
		policy, method, path string // of the 500th request
		want                 int
	}{
		{"never", http.MethodPut, "/302", 1},
		{"reads", http.MethodGet, "/", 0},
		{"matched", http.MethodPost, "/401", 0},
	} {
		n.Reload(t, caddytest.Config("", fmt.Sprintf(site, test.policy)))
		n.AwaitReload(t)
		send(499, http.MethodPost, "/")
		send(1, test.method, test.path)
		send(497, http.MethodPost, "/")
		send(2, http.MethodPatch, "/error")
		assert.ErrorIf(t, len(lines(test.policy)) > 0, "%s: %v before the 1,000th response", test.policy, lines(test.policy))
		send(3, http.MethodPost, "/")
		got := lines(test.policy)
		assert.ErrorIf(t, len(got) != test.want, "%s: the log has %v, want %d lines", test.policy, got, test.want)
		n.CheckMetric(t, `count_if_unmatched_total{policy="`+test.policy+`"}`, float64(test.want))
		for _, line := range got {
			assert.ErrorIf(t, !strings.Contains(line.Text, `"statuses":"200: 997, 422: 2, 302: 1"`), "%s: the line is %s", test.policy, line.Text)
		}
	}
	n.Reload(t, caddytest.Config("", fmt.Sprintf(site, "shared")))
	n.AwaitReload(t)
	send(500, http.MethodPost, "/second") // two responses of the policy each
	assert.ErrorIf(t, len(lines("shared")) != 1, "two handlers with one policy: %v", lines("shared"))
}
