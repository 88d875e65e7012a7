package redisratelimit

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// tellPlaceholders is a handler that puts placeholders into headers of their names.
func tellPlaceholders(names ...string) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		repl, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		for _, name := range names {
			if value, found := repl.GetString("http.redis_ratelimit." + name); found {
				w.Header().Set(name, value)
			}
		}
		return nil
	}
}

func TestPlaceholders_tell_times_in_seconds(t *testing.T) {
	names := []string{"decision", "source", "policy", "limit", "remaining", "retry_after", "reset_after", "nonsense"}
	server := serve(t, tellPlaceholders(names...), newHandler(t, `{"policies":[{"name":"p","limit":2,"window":"1h","algorithm":"gcra","burst":3}]}`))
	header := fetch(t, server.URL).Header
	for name, want := range map[string]string{
		"decision": "allowed", "source": "memory", "policy": "p", "limit": "3", "remaining": "2",
		"retry_after": "0", "reset_after": "1800", "nonsense": "",
	} {
		got := header.Get(name)
		redistest.ErrorIf(t, got != want, "{http.redis_ratelimit.%s} is %q, want %q", name, got, want)
	}
	later := fetch(t, server.URL).Header.Get("reset_after")
	if seconds, err := strconv.ParseFloat(later, 64); err != nil || seconds <= 3590 || seconds > 3600 {
		t.Errorf("after a second request {http.redis_ratelimit.reset_after} is %q, want a bit less than 3600", later)
	}
}

// TestDecision_writes_its_outcome_alone reads the variable that handlers keep it in, as a site that
// writes logs may.
func TestDecision_writes_its_outcome_alone(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) error {
		repl, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		value, _ := repl.GetString("http.vars.redis_ratelimit.decision")
		w.Header().Set("Placeholder", value)
		w.Header().Set("Format", fmt.Sprintf("%+v", caddyhttp.GetVar(r.Context(), "redis_ratelimit.decision")))
		return nil
	}, newHandler(t, policyJSON("p", `5,"key":"secret"`)))
	header := fetch(t, server.URL).Header
	for _, name := range []string{"Placeholder", "Format"} {
		got := header.Get(name)
		redistest.ErrorIf(t, got != "allowed", "%s: got %q, want allowed", name, got)
	}
}

func TestPlaceholders_of_a_handler_that_decided_nothing_are_unknown(t *testing.T) {
	skipping := newHandler(t, `{"policies":[{"key":"{http.request.header.X-Key}","limit":2,"window":"1h"}],"on_empty_key":"skip"}`)
	server := serve(t, tellPlaceholders("decision", "policy"), skipping)
	if header := fetch(t, server.URL).Header; len(header.Values("decision")) > 0 || len(header.Values("policy")) > 0 || len(header.Values(quotaheader.Limit)) > 0 {
		t.Errorf("got %v; want no decision", header)
	}
}

func TestSeconds_have_the_decimals_that_they_need(t *testing.T) {
	for duration, want := range map[time.Duration]string{
		0: "0", time.Second: "1", 1500 * time.Millisecond: "1.5", time.Microsecond: "0.000001",
		24 * time.Hour: "86400", limiter.Never: "-1", 5866889 * time.Microsecond: "5.866889", 100 * time.Second: "100",
	} {
		got := quotaheader.Seconds(duration)
		redistest.ErrorIf(t, got != want, "%v is written %q, want %q", duration, got, want)
	}
	for duration, want := range map[time.Duration]int64{0: 0, 1: 1, time.Second: 1, time.Second + 1: 2, time.Minute: 60} {
		got := quotaheader.CeilSeconds(duration)
		redistest.ErrorIf(t, got != want, "%v is rounded up to %d, want %d", duration, got, want)
	}
}
