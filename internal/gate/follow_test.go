package gate

import (
	"context"
	"crypto/tls"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/quic-go/quic-go/http3"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// TestLimiter_Follow has rules with count_if, a cost and both see a response at its header and at its end.
func TestLimiter_Follow(t *testing.T) {
	t.Parallel()
	policy, err := limiter.NewPolicy(limiter.Settings{Name: "followed", Limit: 1000, Window: time.Hour})
	redistest.Must(t, err)
	cost, err := rule.ParseCost(rule.ResponseBytes, 0)
	redistest.Must(t, err)
	countIf := &caddyhttp.ResponseMatcher{StatusCode: []int{401}}
	for name, test := range map[string]struct {
		rule     rule.Rule
		status   int // as it is judged at the header; 0: all count
		atHeader bool
		cost     int64
	}{
		"count_if counts":              {rule.Rule{CountIf: countIf}, 401, true, 100},
		"count_if does not count":      {rule.Rule{CountIf: countIf}, 200, true, 0},
		"the client left":              {rule.Rule{CountIf: countIf}, 0, true, 100},
		"a cost":                       {rule.Rule{Cost: cost}, 200, false, 40},
		"count_if counts, and a cost":  {rule.Rule{CountIf: countIf, Cost: cost}, 401, false, 40},
		"neither is counted nor costs": {rule.Rule{CountIf: countIf, Cost: cost}, 200, true, 0},
	} {
		test.rule.Policy, test.rule.Numbers.Weight = policy, 100
		l := New(Limiter{Rules: rule.NewSet([]rule.Rule{test.rule})})
		q := Question{Checks: []limiter.Check{{Policy: policy, Weight: 100}}}
		passed, waits := l.Passed(&q, 0)
		redistest.FatalIf(t, !waits, "%s: nothing waits for the response", name)
		response := rule.Response{Request: httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody), Status: test.status, Begun: true, Bytes: 40}
		effect, waits := l.Follow(&passed, &response)
		redistest.ErrorIf(t, waits == test.atHeader, "%s: it waits for the end: %t", name, waits)
		if waits {
			response.Ended, response.Complete = true, true
			effect, _ = l.Follow(&passed, &response)
		}
		if effect.Cost != test.cost || effect.Counts != (test.status != 200 || test.rule.CountIf == nil) {
			t.Errorf("%s: got the cost %d, counted %t, want %d", name, effect.Cost, effect.Counts, test.cost)
		}
	}
}

// TestDecision_reason follows a request that is denied, and then passes a limit of the error routes.
func TestDecision_reason(t *testing.T) {
	t.Parallel()
	policy, err := limiter.NewPolicy(limiter.Settings{Name: "p", Limit: 1, Window: time.Hour})
	redistest.Must(t, err)
	passes := []limiter.Check{{Policy: policy}}
	denies := []limiter.Check{{Policy: policy, Result: limiter.Result{RetryAfter: time.Second}}}
	r := httptest.NewRequestWithContext(context.WithValue(t.Context(), caddyhttp.ExtraLogFieldsCtxKey, new(caddyhttp.ExtraLogFields)), http.MethodGet, "/", nil)
	d := &decision{}
	add := func(checks []limiter.Check, o rule.Outcome) {
		d.add(&Verdict{Question: Question{Checks: checks, Source: limiter.SourceMemory}, Outcome: o, at: time.Now()}, quotaheader.Formats{})
	}
	for _, step := range []struct {
		name   string
		decide func()
		want   string
	}{
		{"allowed", func() { add(passes, rule.Allowed) }, ""},
		{"denied", func() { add(denies, rule.Denied) }, "limit"},
		{"banned", func() { d.refusal = rule.ReasonBan }, "ban"},
		{"allowed after the denial", func() { add(passes, rule.Allowed) }, ""},
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
	redistest.Must(t, err)
	checks := []limiter.Check{{Policy: policy, Result: limiter.Result{RetryAfter: time.Second}}}
	d := &decision{}
	d.add(&Verdict{Question: Question{Checks: checks, Source: limiter.SourceMemory}, Outcome: rule.Denied, at: time.Now()}, quotaheader.Formats{})
	const types = "https://iana.org/assignments/http-problem-types#"
	for reason, want := range map[rule.Reason]string{rule.ReasonLimit: "quota-exceeded", rule.ReasonBan: "abnormal-usage-detected"} {
		d.refusal = reason
		if got := d.problem(429, checks); got.Type != types+want || got.Status != 429 || got.Title == "" || !slices.Equal(got.Policies, []string{"p"}) {
			t.Errorf("%s: got %+v, want the type %s", reason, got, want)
		}
	}
}

// TestLimiter_Follow_longest has a response cost at most what can be charged, whatever length a log tells.
func TestLimiter_Follow_longest(t *testing.T) {
	t.Parallel()
	policy, err := limiter.NewPolicy(limiter.Settings{Name: "followed", Limit: 1000, Window: time.Hour})
	redistest.Must(t, err)
	cost, err := rule.ParseCost(rule.ResponseBytes, 0)
	redistest.Must(t, err)
	l := New(Limiter{Rules: rule.NewSet([]rule.Rule{{Policy: policy, Cost: cost}})})
	passed, _ := l.Passed(&Question{Checks: []limiter.Check{{Policy: policy, Weight: 1}}}, 0)
	response := rule.Response{Request: httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody), Status: 200, Begun: true, Ended: true, Bytes: math.MaxInt64}
	effect, _ := l.Follow(&passed, &response)
	redistest.ErrorIf(t, effect.Cost != limiter.MaxCharge, "got a cost of %d", effect.Cost)
}

// TestInclude_forged has clients of each protocol that claim to be an include, even with its address.
func TestInclude_forged(t *testing.T) {
	var served atomic.Int64
	forged := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		served.Add(1)
		r.RemoteAddr = includeAddr
		redistest.ErrorIf(t, IsInclude(r), "a request by %s passes as an include", r.Proto)
	})
	open, secure := httptest.NewUnstartedServer(forged), httptest.NewUnstartedServer(forged)
	open.Config.Protocols = protocols((*http.Protocols).SetHTTP1, (*http.Protocols).SetUnencryptedHTTP2)
	open.Start()
	secure.EnableHTTP2 = true
	secure.StartTLS()
	t.Cleanup(open.Close)
	t.Cleanup(secure.Close)
	dial, overUDP := serveElsewhere(t, open.Config, secure.TLS)
	for _, client := range []struct {
		transport http.RoundTripper
		url       string
	}{
		{&http.Transport{Protocols: protocols((*http.Protocols).SetHTTP1)}, open.URL},
		{&http.Transport{Protocols: protocols((*http.Protocols).SetUnencryptedHTTP2)}, open.URL},
		{&http.Transport{DialContext: dial}, "http://socket"},
		{secure.Client().Transport, secure.URL},
		{&http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, overUDP},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, client.url, http.NoBody)
		r.RequestURI = ""
		r.Header.Set(includeHeader, "1")
		response, err := (&http.Client{Transport: client.transport}).Do(r)
		redistest.Must(t, err)
		_ = response.Body.Close()
	}
	n := served.Load()
	redistest.ErrorIf(t, n != 5, "%d requests were served, want 5", n)
}

func protocols(set ...func(*http.Protocols, bool)) *http.Protocols {
	p := new(http.Protocols)
	for _, set := range set {
		set(p, true)
	}
	return p
}

// serveElsewhere has a server serve a unix socket too, and HTTP/3 with certificates, until the test's end.
func serveElsewhere(t *testing.T, server *http.Server, certificates *tls.Config) (dial func(context.Context, string, string) (net.Conn, error), url string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	redistest.Must(t, err)
	datagrams, err := net.ListenPacket("udp", "127.0.0.1:0")
	redistest.Must(t, err)
	third := &http3.Server{Handler: server.Handler, TLSConfig: http3.ConfigureTLSConfig(certificates.Clone())}
	go func() { _ = server.Serve(listener) }()
	go func() { _ = third.Serve(datagrams) }()
	t.Cleanup(func() {
		_ = third.Close()
		_ = datagrams.Close()
	})
	dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	return dial, "https://" + datagrams.LocalAddr().String()
}
