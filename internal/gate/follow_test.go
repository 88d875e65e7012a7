package gate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
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

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// TestLimiter_Follow has rules with count_if, a cost and both see a response at its header and at its end.
func TestLimiter_Follow(t *testing.T) {
	t.Parallel()
	policy := assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "followed", Limit: 1000, Window: time.Hour}))(t)
	cost := assert.NoError(rule.ParseCost(rule.ResponseBytes, 0))(t)
	countIf := &caddyhttp.ResponseMatcher{StatusCode: []int{401}}
	for name, test := range map[string]struct {
		rule     rule.Rule
		status   int // as it is judged at the header; 0: all count
		atHeader bool
		bytes    int64
		cost     int64
	}{
		"count_if counts":              {rule.Rule{CountIf: countIf}, 401, true, 40, 100},
		"count_if does not count":      {rule.Rule{CountIf: countIf}, 200, true, 40, 0},
		"the client left":              {rule.Rule{CountIf: countIf}, 0, true, 40, 100},
		"a cost":                       {rule.Rule{Cost: cost}, 200, false, 40, 40},
		"more than can be charged":     {rule.Rule{Cost: cost}, 200, false, math.MaxInt64, limiter.MaxCharge},
		"count_if counts, and a cost":  {rule.Rule{CountIf: countIf, Cost: cost}, 401, false, 40, 40},
		"neither is counted nor costs": {rule.Rule{CountIf: countIf, Cost: cost}, 200, true, 40, 0},
	} {
		test.rule.Policy, test.rule.Numbers.Weight = policy, 100
		l := New(Limiter{Rules: rule.NewSet([]rule.Rule{test.rule})})
		q := Question{Checks: []limiter.Check{{Policy: policy, Weight: 100}}}
		passed, waits := l.Passed(&q, 0)
		assert.FatalIf(t, !waits, "%s: nothing waits for the response", name)
		response := rule.Response{Request: httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody), Status: test.status, Begun: true, Bytes: test.bytes}
		effect, waits := l.Follow(&passed, &response)
		assert.ErrorIf(t, waits == test.atHeader, "%s: it waits for the end: %t", name, waits)
		if waits {
			response.Ended, response.Complete = true, true
			effect, _ = l.Follow(&passed, &response)
		}
		assert.ErrorIf(t, effect.Cost != test.cost || effect.Counts != (test.status != 200 || test.rule.CountIf == nil),
			"%s: got the cost %d, counted %t, want %d", name, effect.Cost, effect.Counts, test.cost)
	}
}

// TestDecision_reason follows a request that is denied, and then passes a limit of the error routes.
func TestDecision_reason(t *testing.T) {
	t.Parallel()
	policy := assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "p", Limit: 1, Window: time.Hour}))(t)
	passes := []limiter.Check{{Policy: policy}}
	denies := []limiter.Check{{Policy: policy, Result: limiter.Result{RetryAfter: time.Second}}}
	r := httptest.NewRequestWithContext(context.WithValue(t.Context(), caddyhttp.ExtraLogFieldsCtxKey, new(caddyhttp.ExtraLogFields)), http.MethodGet, "/", nil)
	d := &decision{}
	add := func(checks []limiter.Check, o rule.Outcome) {
		d.add(&Verdict{Question: Question{Checks: checks, Source: limiter.SourceMemory}, Outcome: o, at: time.Now()}, 0)
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
	policy := assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "p", Limit: 1, Window: time.Hour}))(t)
	checks := []limiter.Check{{Policy: policy, Result: limiter.Result{RetryAfter: time.Second}}}
	d := &decision{}
	d.add(&Verdict{Question: Question{Checks: checks, Source: limiter.SourceMemory}, Outcome: rule.Denied, at: time.Now()}, 0)
	const types = "https://iana.org/assignments/http-problem-types#"
	for reason, want := range map[rule.Reason]string{rule.ReasonLimit: "quota-exceeded", rule.ReasonBan: "abnormal-usage-detected"} {
		d.refusal = reason
		if got := d.problem(429, checks); got.Type != types+want || got.Status != 429 || got.Title == "" || !slices.Equal(got.Policies, []string{"p"}) {
			t.Errorf("%s: got %+v, want the type %s", reason, got, want)
		}
	}
}

// TestInclude_forged has clients of each protocol that claim to be an include, even with its address.
func TestInclude_forged(t *testing.T) {
	var served atomic.Int64
	forged := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		served.Add(1)
		r.RemoteAddr = includeAddr
		assert.ErrorIf(t, IsInclude(r), "a request by %s passes as an include", r.Proto)
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
		response := assert.NoError((&http.Client{Transport: client.transport}).Do(r))(t)
		_ = response.Body.Close()
	}
	assert.Equal(t, served.Load(), 5, "the number of requests that were served")
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
	listener := assert.NoError(net.Listen("unix", socket))(t)
	datagrams := assert.NoError(net.ListenPacket("udp", "127.0.0.1:0"))(t)
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

// lookingAt is a page with a clock of its own, and what counts how often quotas are read.
type lookingAt struct {
	*looks
	clock time.Time
	reads int64
	err   error
}

func newLooking() *lookingAt {
	l := &lookingAt{looks: newLooks(), clock: time.Now()}
	l.now = func() time.Time { return l.clock }
	return l
}

// at returns the remaining units of the answer, which are the number of reads so far.
func (l *lookingAt) at(t *testing.T, c limiter.Check) int64 {
	t.Helper()
	answer, err := l.look([]limiter.Check{c}, func(checks []limiter.Check) (limiter.Source, error) {
		l.reads++
		checks[0].Result.Remaining = l.reads
		return limiter.SourceRedis, l.err
	})
	assert.FatalIf(t, !errors.Is(err, l.err), "%v", err)
	if err != nil {
		return -1
	}
	return answer.checks[0].Result.Remaining
}

func checkOf(t *testing.T, limit int64, key string) limiter.Check {
	t.Helper()
	policy := assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "looked", Limit: limit, Window: time.Hour}))(t)
	return limiter.Check{Policy: policy, Key: limiter.EncodeKey(key), Weight: 1}
}

// TestLooks_look reads anew ten times, then ten times a second, whatever comes.
func TestLooks_look(t *testing.T) {
	l, c := newLooking(), checkOf(t, 5, "a")
	for i := range int64(10) {
		got := l.at(t, c)
		assert.FatalIf(t, got != i+1, "look %d: the answer of read %d", i, got)
	}
	for range 1000 {
		got := l.at(t, c)
		assert.FatalIf(t, got != 10, "got the answer of read %d", got)
	}
	for range 1000 {
		l.clock = l.clock.Add(time.Millisecond)
		l.at(t, c)
	}
	assert.ErrorIf(t, l.reads < 19 || l.reads > 21, "%d reads in a second of looks, want 10 more than before", l.reads)
	l.clock = l.clock.Add(freshPace)
	if before := l.reads; l.at(t, c) != before+1 {
		t.Error("an answer is older than 0.1 s")
	}
	l.clock = l.clock.Add(time.Minute)
	before := l.reads
	for range 10 {
		l.at(t, c)
	}
	assert.ErrorIf(t, l.reads != before+10, "%d reads of ten looks after a minute", l.reads-before)
}

// TestLooks_look_others keeps clients, limits, weights and blocks apart, and keeps no error.
func TestLooks_look_others(t *testing.T) {
	l, c := newLooking(), checkOf(t, 5, "a")
	for range 20 {
		l.at(t, c)
	}
	heavy, blocked := c, c
	heavy.Weight = 2
	blocked.Result.RetryAfter = limiter.Never
	for name, other := range map[string]limiter.Check{"key": checkOf(t, 5, "b"), "limit": checkOf(t, 6, "a"), "weight": heavy, "block": blocked} {
		before := l.reads
		assert.ErrorIf(t, l.at(t, other) != before+1, "another %s gets an answer that is not its own", name)
	}
	l.err = errors.New("no answer")
	fresh := checkOf(t, 5, "c")
	for range 30 {
		assert.FatalIf(t, l.at(t, fresh) != -1, "an error is an answer")
	}
}

// TestLooks_look_bounded has more clients than are kept.
func TestLooks_look_bounded(t *testing.T) {
	l := newLooking()
	for i := range 3 * maxLookers {
		c := checkOf(t, 5, fmt.Sprint(i))
		before := l.reads
		assert.FatalIf(t, l.at(t, c) != before+1, "a new client gets the answer of another")
	}
	assert.ErrorIf(t, len(l.clients) > maxLookers, "%d clients are kept", len(l.clients))
	l.clock = l.clock.Add(time.Minute)
	l.at(t, checkOf(t, 5, "late"))
	assert.ErrorIf(t, len(l.clients) != 1, "%d clients are kept after a minute", len(l.clients))
}

// TestParseUsagePath refuses the paths that Caddy's matcher compares with no request's, and no others.
func TestParseUsagePath(t *testing.T) {
	for _, path := range []string{"/", "/x/", "//x", "/x//y", "/a b", "/a%20b", "/A%2fb", "/a%2Fb^c d", "/%2e%2e/x", "/100%25", "/é", "/x;y:z"} {
		_, err := ParseUsagePath(path)
		assert.ErrorIf(t, err != nil, "%v", err)
	}
	for _, path := range []string{"/./x", "/a/../x", "/x/.", "/..", "//../x", "/a%20b/../x", "/100%", "/a%2", "/a%zz", "x", "/x?y", "/x#y", "/x*", "/{x}", "/x "} {
		_, err := ParseUsagePath(path)
		assert.ErrorIf(t, err == nil, "usage %s is accepted", path)
	}
}
