package redisratelimit

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/dunglas/httpsfv"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/answer"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// fetch asks a server once.
func fetch(t testing.TB, url string) *http.Response {
	t.Helper()
	response := assert.NoError(http.Get(url))(t)
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	return response
}

// checkShare checks the headers that show a share, each of which must stand once.
func checkShare(t testing.TB, header http.Header, limit, remaining string) {
	t.Helper()
	for name, want := range map[string]string{answer.Limit: limit, answer.Remaining: remaining} {
		got := header.Values(name)
		assert.ErrorIf(t, len(got) != 1 || got[0] != want, "%s is %q, want %s", name, got, want)
	}
	resets := header.Values(answer.Reset)
	assert.FatalIf(t, len(resets) != 1, "%s is %q, want one", answer.Reset, resets)
	reset, err := strconv.ParseInt(resets[0], 10, 64)
	if left := time.Until(time.Unix(reset, 0)); err != nil || left < -time.Minute || left > 48*time.Hour+time.Minute {
		t.Errorf("%s is %q, want a time until 48 hours from now", answer.Reset, resets[0])
	}
}

// writing is a handler that writes a status, unless it is 0, and a body, unless it is empty.
func writing(status int, body string) caddyhttp.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) error {
		if status != 0 {
			w.WriteHeader(status)
		}
		if body == "" {
			return nil
		}
		_, err := io.WriteString(w, body)
		return err
	}
}

// addingHeaders is a handler that adds headers of the names that this module sets, and goes on as another one.
func addingHeaders(then caddyhttp.HandlerFunc) caddyhttp.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		for _, name := range []string{"X-RateLimit-Limit", "x-ratelimit-remaining", "X-Ratelimit-Reset"} {
			w.Header().Add(name, "98")
			w.Header().Add(name, "99")
		}
		return then(w, r)
	}
}

func TestHeaders_stand_on_every_kind_of_response(t *testing.T) {
	failing := func(err error) caddyhttp.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) error { return err }
	}
	broken := errors.New("broken")
	for _, test := range []struct {
		name   string
		inside caddyhttp.HandlerFunc
		status int
	}{
		{"nothing written", writing(0, ""), 200},
		{"an error", failing(broken), 500},
		{"an error with a status", failing(caddyhttp.Error(http.StatusNotFound, broken)), 404},
		{"a status alone", writing(http.StatusNoContent, ""), 204},
		{"a body alone", writing(0, "hello"), 200},
		{"headers of the same names", addingHeaders(writing(http.StatusBadGateway, "")), 502},
		{"headers of the same names and an error", addingHeaders(failing(broken)), 500},
		{"a body read from elsewhere", func(w http.ResponseWriter, _ *http.Request) error {
			_, err := w.(io.ReaderFrom).ReadFrom(strings.NewReader("hello")) //nolint:forcetypeassert,errcheck // it panics otherwise
			return err
		}, 200},
		{"a body copied", func(w http.ResponseWriter, _ *http.Request) error {
			_, err := io.Copy(w, io.LimitReader(strings.NewReader("hello"), 3))
			return err
		}, 200},
		{"a stream", func(w http.ResponseWriter, r *http.Request) error {
			return errors.Join(http.NewResponseController(w).Flush(), writing(0, "hello")(w, r))
		}, 200},
		{"two statuses", func(w http.ResponseWriter, r *http.Request) error {
			w.WriteHeader(http.StatusEarlyHints)
			return writing(http.StatusNotModified, "")(w, r)
		}, 304},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := serve(t, test.inside, newHandler(t, policyJSON("p", "10")))
			response := fetch(t, server.URL)
			assert.ErrorIf(t, response.StatusCode != test.status, "the status is %d, want %d", response.StatusCode, test.status)
			checkShare(t, response.Header, "10", "9")
		})
	}
}

func TestHeaders_leave_informational_responses_alone(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusOK)
		return nil
	}, newHandler(t, policyJSON("p", "10")))
	r := assert.NoError(http.NewRequest(http.MethodGet, server.URL, http.NoBody))(t)
	hints := 0
	r = r.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(status int, header textproto.MIMEHeader) error {
			hints++
			if status != http.StatusEarlyHints || header.Get("Link") == "" || header.Get(answer.Limit) != "" {
				t.Errorf("got status %d with %v; want 103 without a share", status, header)
			}
			return nil
		},
	}))
	response := assert.NoError(http.DefaultClient.Do(r))(t)
	defer response.Body.Close()
	assert.ErrorIf(t, hints != 1, "%d informational responses came, want 1", hints)
	checkShare(t, response.Header, "10", "9")
}

// checkOnlyItem checks that the headers have one item, of so many units that remain.
func checkOnlyItem(t *testing.T, header http.Header, remaining int64) {
	t.Helper()
	if got := header.Values(answer.Policy); !slices.Equal(got, []string{`"same";q=10;w=86400`}) {
		t.Errorf("%s is %q", answer.Policy, got)
	}
	list, err := httpsfv.UnmarshalList(header.Values(answer.Quota))
	if err != nil || len(list) != 1 {
		t.Fatalf("%s is %q, error %v; want one item", answer.Quota, header.Values(answer.Quota), err)
	}
	item, _ := list[0].(httpsfv.Item)
	if got, _ := item.Params.Get("r"); got != remaining {
		t.Errorf("%s is %q, want %d to remain", answer.Quota, header.Values(answer.Quota), remaining)
	}
}

// TestPolicies_have_one_item_each_however_often_they_are_met takes twice from one share, and from two
// shares of one policy.
func TestPolicies_have_one_item_each_however_often_they_are_met(t *testing.T) {
	policy := func(more string) string {
		return `{"name":"same","limit":10,"window":"24h"` + more + `}`
	}
	for name, test := range map[string]struct {
		handlers  []string
		remaining int64
	}{
		"one share":                 {[]string{policy(`,"key":"a"`), policy(`,"key":"a"`)}, 8},
		"two shares":                {[]string{policy(`,"key":"a","weight":3`), policy(`,"key":"b"`)}, 7},
		"two shares of one handler": {[]string{policy(`,"key":"a"`) + "," + policy(`,"key":"b","weight":2`)}, 8},
	} {
		t.Run(name, func(t *testing.T) {
			var handlers []*Handler
			for _, policies := range test.handlers {
				handlers = append(handlers, newHandler(t, `{"policies":[`+policies+`],"headers":["ietf"]}`))
			}
			checkOnlyItem(t, fetch(t, serve(t, hello, handlers...).URL).Header, test.remaining)
		})
	}
}

// TestHeaders_outerShowsNone has a handler whose headers are off, and which waits for the response, around one that
// shows its quota.
func TestHeaders_outerShowsNone(t *testing.T) {
	outer := newHandler(t, `{"policies":[{"name":"outer","key":"outer","limit":9,"window":"24h","count_if":{"status_code":[401]}}],"headers":["off"]}`)
	inner := newHandler(t, `{"policies":[{"name":"inner","key":"inner","limit":5,"window":"24h"}]}`)
	within := func(w http.ResponseWriter, r *http.Request) error {
		return inner.ServeHTTP(w, r, hello)
	}
	checkShare(t, fetch(t, serve(t, within, outer).URL).Header, "5", "4")
}

// secondsOf returns the seconds until X-RateLimit-Reset, and those of the only item of RateLimit.
func secondsOf(t testing.TB, header http.Header) (untilReset, told int64) {
	t.Helper()
	reset := assert.NoError(strconv.ParseInt(header.Get(answer.Reset), 10, 64))(t)
	list := assert.NoError(httpsfv.UnmarshalList(header.Values(answer.Quota)))(t)
	assert.FatalIf(t, len(list) != 1, "%s is %q", answer.Quota, header.Values(answer.Quota))
	item, _ := list[0].(httpsfv.Item)
	value, _ := item.Params.Get("t")
	told, _ = value.(int64)
	return reset - time.Now().Unix(), told
}

// TestHeaders_nothingLeft has answers that show nothing left tell the wait that the next denial tells, and no shorter one, and
// placeholders when the whole quota is free. What a response may charge more keeps the answer from knowing that.
func TestHeaders_nothingLeft(t *testing.T) {
	for name, test := range map[string]struct {
		options     string
		least, most int64 // seconds that are told
		exact       bool  // the next denial tells the same
	}{
		"bucket":          {`"algorithm":"gcra"`, 11, 12, true},
		"burst":           {`"algorithm":"token_bucket","burst":10`, 11, 12, true},
		"weight":          {`"algorithm":"gcra","weight":5`, 59, 60, true},
		"reserve":         {`"algorithm":"gcra","reserve":"2"`, 11, 12, true},
		"queue":           {`"algorithm":"leaky_bucket","max_delay":"0s"`, 11, 12, true},
		"counter":         {`"algorithm":"sliding_window_counter"`, 0, 61, true},
		"fixed window":    {`"algorithm":"fixed_window"`, 0, 60, true},
		"log":             {`"algorithm":"sliding_window_log"`, 59, 60, false},
		"bucket, charged": {`"algorithm":"gcra","cost_from":"response_bytes"`, 59, 60, false},
	} {
		server := serve(t, tellPlaceholders("reset_after", "remaining"), newHandler(t, `{"policies":[{"name":"p","key":"nothing left, `+name+`","limit":5,"window":"1m",`+test.options+`}],
			"headers":["x_ratelimit","ietf"]}`))
		var last http.Header
		began := time.Now()
		for range 10 {
			if last = fetch(t, server.URL).Header; last.Get(answer.Remaining) == "0" {
				break
			}
		}
		untilReset, told := secondsOf(t, last)
		passed := int64(time.Since(began) / time.Second) // on a busy machine, meanwhile
		assert.ErrorIf(t, told < test.least-passed || told > test.most || untilReset < told-1-passed || untilReset > told+1,
			"%s: the reset is in %d s, t is %d; want from %d to %d, and %d s have passed", name, untilReset, told, test.least, test.most, passed)
		whole := assert.NoError(strconv.ParseFloat(last.Get("reset_after"), 64))(t)
		assert.ErrorIf(t, whole < float64(told)-1, "%s: {reset_after} is %v, t is %d", name, whole, told)
		denied := fetch(t, server.URL).Header
		passed = int64(time.Since(began) / time.Second)
		wait, _ := strconv.ParseInt(denied.Get(answer.RetryAfter), 10, 64)
		assert.ErrorIf(t, wait > told || test.exact && wait < told-1-passed, "%s: %d s are told, then Retry-After: %d", name, told, wait)
	}
}

// TestHeaders_units names bytes, leaves policies out whose units have no name for clients, and those that handlers in the way
// of a request count in different units.
func TestHeaders_units(t *testing.T) {
	policy := func(name, options string) string {
		return `{"name":"` + name + `","key":"units","limit":1000,"window":"1m"` + options + `}`
	}
	const asked = `,"weight_from":"llm","weight":5`
	bytes, tokens := policy("bytes", `,"cost_from":"response_bytes"`), policy("tokens", `,"cost_from":"json usage.total_tokens"`)
	for name, test := range map[string]struct {
		handlers []string
		want     string // of RateLimit-Policy
	}{
		"bytes":     {[]string{bytes}, `"bytes";q=1000;qu="content-bytes";w=60`},
		"others":    {[]string{tokens + "," + policy("asked", asked) + "," + policy("calls", "")}, `"calls";q=1000;w=60`},
		"weights":   {[]string{policy("heavy", `,"weight":5`)}, `"heavy";q=1000;w=60`},
		"none":      {[]string{tokens}, ""},
		"alike":     {[]string{bytes, bytes}, `"bytes";q=1000;qu="content-bytes";w=60`},
		"different": {[]string{bytes + "," + policy("calls", ""), policy("bytes", "")}, `"calls";q=1000;w=60`},
	} {
		var handlers []*Handler
		for _, policies := range test.handlers {
			handlers = append(handlers, newHandler(t, `{"policies":[`+policies+`],"headers":["x_ratelimit","ietf"]}`))
		}
		header := fetch(t, serve(t, hello, handlers...).URL).Header
		assert.Equal(t, header.Get(answer.Policy), test.want, "%s: %s", name, answer.Policy)
		assert.ErrorIf(t, header.Get(answer.Limit) != "1000", "%s: %s is %q", name, answer.Limit, header.Get(answer.Limit))
		items := assert.NoError(httpsfv.UnmarshalList(header.Values(answer.Quota)))(t)
		assert.Equal(t, len(items), strings.Count(test.want, ";q="), "%s: items of %s", name, answer.Quota)
	}
}
