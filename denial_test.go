package redisratelimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/answer"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/waiting"
)

// hello is a handler that answers.
var hello = writing(0, "hello")

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
		assert.Equal(t, header.Get(name), want, "{http.redis_ratelimit.%s}", name)
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
		assert.Equal(t, header.Get(name), "allowed", "%s", name)
	}
}

func TestPlaceholders_of_a_handler_that_decided_nothing_are_unknown(t *testing.T) {
	skipping := newHandler(t, `{"policies":[{"key":"{http.request.header.X-Key}","limit":2,"window":"1h"}],"on_empty_key":"skip"}`)
	server := serve(t, tellPlaceholders("decision", "policy"), skipping)
	if header := fetch(t, server.URL).Header; len(header.Values("decision")) > 0 || len(header.Values("policy")) > 0 || len(header.Values(answer.Limit)) > 0 {
		t.Errorf("got %v; want no decision", header)
	}
}

func TestSeconds_have_the_decimals_that_they_need(t *testing.T) {
	for duration, want := range map[time.Duration]string{
		0: "0", time.Second: "1", 1500 * time.Millisecond: "1.5", time.Microsecond: "0.000001",
		24 * time.Hour: "86400", limiter.Never: "-1", 5866889 * time.Microsecond: "5.866889", 100 * time.Second: "100",
	} {
		assert.Equal(t, answer.Seconds(duration), want, "%v written", duration)
	}
	for duration, want := range map[time.Duration]int64{0: 0, 1: 1, time.Second: 1, time.Second + 1: 2, time.Minute: 60} {
		assert.Equal(t, answer.CeilSeconds(duration), want, "%v rounded up to", duration)
	}
}

// call sends a call of gRPC.
func call(t testing.TB, url string) *http.Response {
	t.Helper()
	response := assert.NoError(http.Post(url, "application/grpc", strings.NewReader("\x00\x00\x00\x00\x00")))(t)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	assert.FatalIf(t, err != nil || len(body) > 0 && response.Header.Get("Grpc-Status") != "", "the body is %q, error %v", body, err)
	return response
}

// TestRefusedCall_jitter has Retry-After round up the pushback, unless it is beyond a minute.
func TestRefusedCall_jitter(t *testing.T) {
	for _, jitter := range []string{"2s", "24h"} {
		server := serve(t, hello, newHandler(t, `{"policies":[{"name":"p","key":"jitter `+jitter+`","limit":1,"window":"55s","algorithm":"gcra"}],"retry_jitter":"`+jitter+`"}`))
		call(t, server.URL)
		for range 20 {
			header := call(t, server.URL).Header
			seconds := assert.NoError(strconv.ParseInt(header.Get("Retry-After"), 10, 64))(t)
			pushback, err := strconv.ParseInt(header.Get("Grpc-Retry-Pushback-Ms"), 10, 64)
			if err != nil || (seconds > 60) != (pushback == -1) || (seconds <= 60 && (pushback+999)/1000 != seconds) {
				t.Errorf("Retry-After is %d, the pushback %d, error %v", seconds, pushback, err)
			}
		}
	}
}

// TestRefusedCall_matcherError has a matcher fail: Caddy's log gets its error, as for any other request.
func TestRefusedCall_matcherError(t *testing.T) {
	h := newHandler(t, `{"policies":[{"name":"p","limit":1,"window":"24h"}]}`)
	failed := errors.New("a matcher failed")
	for _, err := range []error{failed, caddyhttp.Error(http.StatusBadRequest, failed)} {
		server := serve(t, func(w http.ResponseWriter, r *http.Request) error { return h.limiter.NewExchange(w, r).Refuse(err) })
		response := call(t, server.URL)
		assert.ErrorIf(t, response.StatusCode < 400 || response.Header.Get("Grpc-Status") != "", "got %v", response)
	}
}

// TestDelay_refuses_where_too_many_wait shows the share nevertheless, which was charged.
func TestDelay_refuses_where_too_many_wait(t *testing.T) {
	server := serve(t, hello, newHandler(t, `{"policies":[{"name":"p","key":"x","limit":5,"window":"48h","algorithm":"leaky_bucket","max_delay":"48h"}]}`))
	checkShare(t, fetch(t, server.URL).Header, "5", "4")
	fillRoom(t)
	response := fetch(t, server.URL)
	assert.Equal(t, response.StatusCode, http.StatusServiceUnavailable, "the status")
	checkShare(t, response.Header, "5", "3")
	refused := call(t, server.URL)
	checkShare(t, refused.Header, "5", "2")
	assert.ErrorIf(t, refused.StatusCode != http.StatusOK || refused.Header.Get("Grpc-Status") != "14" || refused.Header.Get("Grpc-Message") == "", "got %v", refused)
}

// TestDenial_weight says what would pass to requests that weigh more than what is left, unless headers are off.
func TestDenial_weight(t *testing.T) {
	const names = "{http.redis_ratelimit.left} of {http.redis_ratelimit.limit}, {http.redis_ratelimit.needed}"
	for name, test := range map[string]struct{ options, sentence, members, placeholders string }{
		"shown":   {"", "Too many requests. 7,000 of 10,000 are left, this request may take 8,000. Try again in ", `,"left":7000,"needed":8000,"retry_after":`, "7000 of 10000, 8000"},
		"ietf":    {`,"headers":["ietf"]`, "Too many requests. 7,000 of 10,000 are left, this request may take 8,000. Try again in ", `,"left":7000,"needed":8000,"retry_after":`, "7000 of 10000, 8000"},
		"off":     {`,"headers":["off"]`, "Too many requests. Try again in ", `"}],"retry_after":`, " of 10000, "},
		"nothing": {"", "Too many requests. Try again in ", `"}],"retry_after":`, " of 10000, "},
		"never":   {"", "Too many requests. 10,000 of 10,000 are left, this request may take 10,001. The largest one that can pass takes 10,000.", `,"left":10000,"needed":10001}`, "10000 of 10000, 10001"},
		"spent":   {"", "Too many requests. 0 of 10,000 are left, this request may take 10,001. The largest one that can pass takes 10,000.", `,"left":0,"needed":10001}`, "0 of 10000, 10001"},
		"beyond":  {"", "Too many requests. 9,000 of 10,000 are left, this request may take 9,001. The largest one that can pass takes 9,000.", `,"left":9000,"needed":9001}`, "9000 of 10000, 9001"},
	} {
		key, first, second, reserve := strconv.Quote("weight, "+name), "3000", "8000", "0"
		switch name {
		case "nothing":
			first = "10000"
		case "never":
			first, second = "", "10001"
		case "spent":
			first, second = "10000", "10001"
		case "beyond":
			first, second, reserve = "", "9001", "1000"
		}
		h := newHandler(t, `{"policies":[{"name":"p","key":`+key+`,"limit":10000,"window":"1h","algorithm":"gcra","weight_from":"{http.request.header.Weight}","weight":1,"reserve":"`+reserve+`"}],"answer":"auto"`+test.options+`}`)
		ask := func(weight, accept string) (body, placeholders string) {
			t.Helper()
			w := httptest.NewRecorder()
			repl := caddy.NewReplacer()
			r := caddyhttp.PrepareRequest(httptest.NewRequest(http.MethodGet, "/", nil), repl, w, &caddyhttp.Server{})
			r.Header.Set("Weight", weight)
			r.Header.Set("Accept", accept)
			assert.Must(t, h.ServeHTTP(w, r, hello))
			return w.Body.String(), repl.ReplaceAll(names, "")
		}
		if first != "" {
			_, placeholders := ask(first, "*/*")
			assert.Equal(t, placeholders, " of 10000, ", "%s: the placeholders of a request that passes", name)
		}
		body, placeholders := ask(second, "*/*")
		assert.ErrorIf(t, !strings.HasPrefix(body, test.sentence), "%s: got %q, want %q", name, body, test.sentence)
		assert.Equal(t, placeholders, test.placeholders, "%s: the placeholders", name)
		body, _ = ask(second, "application/json")
		assert.ErrorIf(t, !strings.Contains(body, test.members) || !strings.Contains(body, `"detail":"`+test.sentence), "%s: got %s, want %s", name, body, test.members)
	}
}

// fillRoom has as many requests held as may be, until the test ends.
func fillRoom(t *testing.T) {
	t.Helper()
	for range waiting.MostWaiting {
		process.Held.Enter()
		t.Cleanup(process.Held.Leave)
	}
}

// TestDelay_text has a request that is refused because too many wait told so by Caddy, which has no error routes.
func TestDelay_text(t *testing.T) {
	server := loadServer(t, "", `{"handler":"redis_ratelimit","policies":[{"name":"p","key":"text","limit":5,"window":"48h","algorithm":"leaky_bucket","max_delay":"48h"}]},`)
	ask := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/", nil))
		return w
	}
	assert.Equal(t, ask().Code, http.StatusOK, "the status of a request that need not wait")
	fillRoom(t)
	refused := ask()
	assert.Equal(t, refused.Code, http.StatusServiceUnavailable, "the status")
	assert.Equal(t, refused.Body.String(), "The server is busy.", "the body")
	checkShare(t, refused.Header(), "5", "3")
}

// unwritable is a response of which the client takes no body.
type unwritable struct{ *httptest.ResponseRecorder }

func (unwritable) Write([]byte) (int, error) { return 0, errors.New("the client has left") }

// TestRefusal_clientLeft has clients leave before the body of a refusal, and of the usage: for Caddy that is no error of
// the server, which error routes would answer a second time.
func TestRefusal_clientLeft(t *testing.T) {
	for name, test := range map[string]struct {
		options string
		path    string
		key     caddy.CtxKey // of the context, set in error routes
		status  int
	}{
		"text":            {"", "/", caddyhttp.ErrorCtxKey, http.StatusTooManyRequests},
		"problem details": {`,"answer":"problem"`, "/", "unused", http.StatusTooManyRequests},
		"usage":           {`,"usage":"/usage"`, "/usage", "unused", http.StatusOK},
	} {
		h := newHandler(t, `{"policies":[{"name":"p","key":"left `+name+`","limit":1,"window":"24h"}]`+test.options+`}`)
		serveOnce(t, h, "/")
		w := unwritable{httptest.NewRecorder()}
		r := caddyhttp.PrepareRequest(httptest.NewRequest(http.MethodGet, test.path, nil), caddy.NewReplacer(), w, &caddyhttp.Server{})
		err := h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), test.key, errDenial)), hello)
		assert.ErrorIf(t, err != nil || w.Code != test.status, "%s: status %d, error %v", name, w.Code, err)
	}
}

var errDenial = errors.New("what error routes run for")
