package redisratelimit

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// tellPlaceholders is a handler that puts placeholders into headers of their names.
func tellPlaceholders(names ...string) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		repl, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		for _, name := range names {
			if value, found := repl.GetString(placeholderPrefix + name); found {
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
		if got := header.Get(name); got != want {
			t.Errorf("{%s%s} is %q, want %q", placeholderPrefix, name, got, want)
		}
	}
	later := fetch(t, server.URL).Header.Get("reset_after")
	if seconds, err := strconv.ParseFloat(later, 64); err != nil || seconds <= 3590 || seconds > 3600 {
		t.Errorf("after a second request {%sreset_after} is %q, want a bit less than 3600", placeholderPrefix, later)
	}
}

// TestDecision_writes_its_outcome_alone reads the variable that handlers keep it in, as a site that
// writes logs may.
func TestDecision_writes_its_outcome_alone(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) error {
		repl, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		value, _ := repl.GetString("http.vars." + decisionVar)
		w.Header().Set("Placeholder", value)
		w.Header().Set("Format", fmt.Sprintf("%+v", caddyhttp.GetVar(r.Context(), decisionVar)))
		return nil
	}, newHandler(t, policyJSON("p", `5,"key":"secret"`)))
	header := fetch(t, server.URL).Header
	for _, name := range []string{"Placeholder", "Format"} {
		if got := header.Get(name); got != "allowed" {
			t.Errorf("%s: got %q, want allowed", name, got)
		}
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
		if got := quotaheader.Seconds(duration); got != want {
			t.Errorf("%v is written %q, want %q", duration, got, want)
		}
	}
	for duration, want := range map[time.Duration]int64{0: 0, 1: 1, time.Second: 1, time.Second + 1: 2, time.Minute: 60} {
		if got := quotaheader.CeilSeconds(duration); got != want {
			t.Errorf("%v is rounded up to %d, want %d", duration, got, want)
		}
	}
}

// TestDecision_reason follows a request that is denied, and then passes a limit of the error routes.
func TestDecision_reason(t *testing.T) {
	t.Parallel()
	policy, err := limiter.NewPolicy(limiter.Settings{Name: "p", Limit: 1, Window: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	passes := []limiter.Check{{Policy: policy}}
	denies := []limiter.Check{{Policy: policy, Result: limiter.Result{RetryAfter: time.Second}}}
	r := httptest.NewRequestWithContext(context.WithValue(t.Context(), caddyhttp.ExtraLogFieldsCtxKey, new(caddyhttp.ExtraLogFields)), http.MethodGet, "/", nil)
	d := &decision{}
	for _, step := range []struct {
		name   string
		decide func()
		want   string
	}{
		{"allowed", func() { d.add(passes, limiter.SourceMemory, quotaheader.Formats{}, time.Now()) }, ""},
		{"denied", func() { d.add(denies, limiter.SourceMemory, quotaheader.Formats{}, time.Now()) }, "limit"},
		{"banned", func() { d.refusal = rule.ReasonBan }, "ban"},
		{"allowed after the denial", func() { d.add(passes, limiter.SourceMemory, quotaheader.Formats{}, time.Now()) }, ""},
		{"undecided after the denial", func() { d.fail(rule.FailedClosed) }, ""},
	} {
		step.decide()
		d.log(r)
		if got, found := d.placeholder(placeholderPrefix + "reason"); got != step.want || !found {
			t.Errorf("%s: {%sreason} is %v, want %q", step.name, placeholderPrefix, got, step.want)
		}
	}
}

func TestProblem_ban(t *testing.T) {
	t.Parallel()
	policy, err := limiter.NewPolicy(limiter.Settings{Name: "p", Limit: 1, Window: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	checks := []limiter.Check{{Policy: policy, Result: limiter.Result{RetryAfter: time.Second}}}
	d := &decision{}
	d.add(checks, limiter.SourceMemory, quotaheader.Formats{}, time.Now())
	const types = "https://iana.org/assignments/http-problem-types#"
	for reason, want := range map[rule.Reason]string{rule.ReasonLimit: "quota-exceeded", rule.ReasonBan: "abnormal-usage-detected"} {
		d.refusal = reason
		if got := d.problem(429, checks); got.Type != types+want || got.Status != 429 || got.Title == "" || !slices.Equal(got.Policies, []string{"p"}) {
			t.Errorf("%s: got %+v, want the type %s", reason, got, want)
		}
	}
}
