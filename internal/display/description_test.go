package display

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

func TestSentence(t *testing.T) {
	minute, address := DurationSeconds(time.Minute), Handler{Key: "{http.vars.client_ip}"}
	bytes := Handler{Key: address.Key, Cost: "response_bytes"}
	for want, p := range map[string]PolicyDescription{
		"1 request per minute for each client address":              {Limit: 1, Window: minute, Handlers: []Handler{address}},
		"5,000 requests per 15 minutes for each user":               {Limit: 5000, Window: 15 * minute, Handlers: []Handler{{Key: "{http.auth.user.id}"}}},
		"5 units per minute for each client address":                {Limit: 5, Window: minute, Handlers: []Handler{address, {Key: address.Key, Weight: 2}}},
		"5 bytes per calendar day (UTC) for each host and path":     {Limit: 5, Calendar: "day", TimeZone: "UTC", Handlers: []Handler{{Key: "{http.request.host}/{http.request.uri.path}", Cost: "response_bytes"}}},
		"5 units per minute for each {key}, or each client address": {Limit: 5, Window: minute, Handlers: []Handler{{Key: "{key}", Cost: "response_bytes"}, address}},
		"500MiB per minute for each client address":                 {Limit: 500 << 20, Window: minute, Handlers: []Handler{bytes}},
		"{p} bytes per minute for each client address, else 5MB":    {Limit: 5_000_000, LimitFrom: "{p}", Window: minute, Handlers: []Handler{bytes}},
		"2,000 units per minute for each client address":            {Limit: 2000, Window: minute, Handlers: []Handler{address, bytes}},
		"5 requests per minute for all clients together":            {Limit: 5, Window: minute, Handlers: []Handler{{Key: "everyone"}}},
		"{p} requests per minute for each header X, else 7":         {Limit: 7, LimitFrom: "{p}", Window: minute, Handlers: []Handler{{Key: "{http.request.header.X}"}}},
		"5 requests per minute for each JSON value user.id":         {Limit: 5, Window: minute, Handlers: []Handler{{Key: "{http.redis_ratelimit.json.user.id}"}}},
		"5 requests per minute for each form field email":           {Limit: 5, Window: minute, Handlers: []Handler{{Key: "{http.redis_ratelimit.form.email}"}}},
		"{p} requests at once for each cookie c, else unlimited":    {MaxConcurrentFrom: "{p}", Unlimited: true, Handlers: []Handler{{Key: "{http.request.cookie.c}"}}},
	} {
		assert.Equal(t, p.Sentence(), want, "the sentence")
	}
}

// TestPolicy_JSON reads a description back from JSON.
func TestPolicy_JSON(t *testing.T) {
	p := PolicyDescription{
		Name: "p", Algorithm: limiter.GCRA, Limit: 5, Window: DurationSeconds(90 * time.Second), Burst: 7, MaxDelay: new(DurationSeconds(2500 * time.Millisecond)),
		Ban: &Ban{Durations: []DurationSeconds{DurationSeconds(time.Minute)}, After: 1},
	}
	text := assert.NoError(json.Marshal(p))(t)
	assert.Equal(t, string(text), `{"name":"p","algorithm":"gcra","limit":5,"window":90,"burst":7,"max_delay":2.5,"ban":{"durations":[60],"after":1}}`, "the JSON")
	var back PolicyDescription
	assert.Must(t, json.Unmarshal(text, &back))
	assert.Equal(t, JoinOptions(back.All()), "algorithm gcra, burst 7, max_delay 2.5s, ban 1 min after 1 denial", "the options")
	p.IPv4Prefix, p.IPv6Prefix = new(24), new(0)
	assert.Equal(t, JoinOptions(p.Options()[4:]), "ipv4_prefix 24, ipv6_prefix 0", "the prefixes")
}

// TestSentence_networks says which networks count, in place of addresses.
func TestSentence_networks(t *testing.T) {
	for want, test := range map[string]struct {
		key        string
		ipv4, ipv6 int
	}{
		"each client address":                            {"{http.vars.client_ip}", 32, 64},
		"each /24 (IPv6 /48)":                            {"{http.vars.client_ip}", 24, 48},
		"each /24 (IPv6 /64)":                            {"{http.vars.client_ip}", 24, 64},
		"each client address (IPv6 /48)":                 {"{http.vars.client_ip}", 32, 48},
		"each /16 of the connection (IPv6 /64) and path": {"{http.request.remote.host}{http.request.uri.path}", 16, 64},
		"each user":                                      {"{http.auth.user.id}", 24, 48},
		"each address of the connection (IPv6 /128)":     {"{http.request.remote.host}", 32, 128},
		"each /0 (IPv6 /0)":                              {"{http.vars.client_ip}", 0, 0},
		"each /24 (IPv6 /48) and JSON value user":        {"{http.vars.client_ip}/{http.redis_ratelimit.json.user}", 24, 48},
	} {
		p := PolicyDescription{Limit: 5, Window: DurationSeconds(time.Minute), Handlers: []Handler{{Key: test.key}}}
		if test.ipv4 != defaultIPv4Prefix {
			p.IPv4Prefix = &test.ipv4
		}
		if test.ipv6 != defaultIPv6Prefix {
			p.IPv6Prefix = &test.ipv6
		}
		assert.Equal(t, p.Sentence(), "5 requests per minute for "+want, "the sentence")
	}
}

// TestUnshown says which policies the RateLimit headers leave out.
func TestUnshown(t *testing.T) {
	p := PolicyDescription{Handlers: []Handler{{Cost: "json usage.total_tokens", Unshown: true}}}
	assert.Equal(t, JoinOptions(p.All()), "cost json usage.total_tokens, headers RateLimit and RateLimit-Policy leave it out, as its units have no name there", "the options")
}

// TestCommon has handlers with and without options that are alike.
func TestCommon(t *testing.T) {
	var p PolicyDescription
	assert.Equal(t, len(p.Common()), 0, "options without a handler")
	p.AddHandler(Handler{Place: "a", Cost: "response_bytes", DryRun: true, Reserve: "20%", Match: "by vars", OnUnread: "pass", Key: "{k}", RawKey: true})
	p.AddHandler(Handler{Place: "b", Cost: "response_bytes", DryRun: true})
	p.AddHandler(Handler{Place: "b", Cost: "response_bytes", DryRun: true})
	assert.Equal(t, len(p.Handlers), 2, "different handlers")
	assert.Equal(t, JoinOptions(p.Common()), "cost response_bytes, dry_run", "the common options")
	assert.Equal(t, JoinOptions(p.All()), "match by vars, on_unread pass, key {k}, raw_key, cost response_bytes, reserve 20%, dry_run", "all options")
	assert.Equal(t, p.Set("reserve"), "20%", "reserve")
}

// TestSizes has a burst and a reserve in bytes, and one in units that a size would misname.
func TestSizes(t *testing.T) {
	p := PolicyDescription{Algorithm: limiter.TokenBucket, Burst: 10 << 30, Handlers: []Handler{{Cost: "response_bytes", Reserve: "5000000"}}}
	assert.Equal(t, JoinOptions(p.All()), "algorithm token_bucket, burst 10GiB, cost response_bytes, reserve 5MB", "the options")
	p.BurstFrom, p.Handlers[0].Reserve = "{b}", "20%"
	assert.Equal(t, JoinOptions(p.All()), "algorithm token_bucket, burst {b}, else 10GiB, cost response_bytes, reserve 20%", "the options")
	p.Handlers[0] = Handler{Cost: "json usage", Reserve: "5000000"}
	assert.Equal(t, JoinOptions(p.All()), "algorithm token_bucket, burst {b}, else 10,737,418,240, cost json usage, reserve 5000000", "the options")
}

// TestWait has requests wait, by arrival and by a value.
func TestWait(t *testing.T) {
	p := PolicyDescription{MaxConcurrent: 8, Handlers: []Handler{{Wait: &Wait{Longest: DurationSeconds(90 * time.Second), Most: 1}}}}
	assert.Equal(t, JoinOptions(p.All()), "wait 1 min 30 s, up to 1 of a key on a node", "the options")
	p.Handlers[0].Wait = &Wait{Longest: DurationSeconds(time.Second / 4), Most: 65_536, By: "{http.auth.user.id}"}
	assert.Equal(t, JoinOptions(p.All()), "wait 250 ms, up to 65,536 of a key on a node, by {http.auth.user.id}", "the options")
}
