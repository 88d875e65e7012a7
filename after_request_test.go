package redisratelimit

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// keptRequest is what handlers may keep of a request that has ended.
type keptRequest struct {
	client   string
	recorder *httptest.ResponseRecorder
	writer   http.ResponseWriter // that the innermost handler had; nil: the request was refused
	repl     *caddy.Replacer
	told     string      // by the placeholders, when the handlers had returned
	header   http.Header // of the response, copied at the same time
}

// placeholdersOf returns what the placeholders of a request tell.
func placeholdersOf(repl *caddy.Replacer) string {
	const prefix = "{http.redis_ratelimit."
	return repl.ReplaceAll(prefix+"decision} "+prefix+"source} "+prefix+"policy} "+prefix+"limit} "+prefix+"remaining} "+prefix+"dry_run}", "")
}

// keepRequest sends a request of a client through handlers, and keeps what is left of it.
func keepRequest(t *testing.T, handlers []*Handler, client string) keptRequest {
	t.Helper()
	k := keptRequest{client: client, recorder: httptest.NewRecorder(), repl: caddy.NewReplacer()}
	inside := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		k.writer = w
		_, err := w.Write([]byte(client))
		return err
	})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.Header.Set("X-Key", client)
	r = caddyhttp.PrepareRequest(r, k.repl, k.recorder, &caddyhttp.Server{})
	if err := chain(handlers, inside).ServeHTTP(k.recorder, r); err != nil {
		k.recorder.WriteHeader(http.StatusTooManyRequests)
	}
	k.told = placeholdersOf(k.repl)
	k.header = http.Header{}
	for name, values := range k.recorder.Header() {
		for _, value := range values {
			k.header[name] = append(k.header[name], strings.Clone(value))
		}
	}
	return k
}

// TestRequest_afterEnd has handlers that keep the writer and the placeholders of requests beyond their end, while other
// requests run: nothing that one request tells or writes may come from, or reach, another one.
func TestRequest_afterEnd(t *testing.T) {
	policy := func(name, limit, options string) string {
		return `{"name":"` + name + `","limit":` + limit + `,"window":"1h","key":"{http.request.header.X-Key}"` + options + `}`
	}
	handler := func(options string, policies ...string) string {
		return `{"policies":[` + strings.Join(policies, ",") + `]` + options + `}`
	}
	const off, answered = `,"headers":["off"]`, `,"answer":"text"`
	for name, test := range map[string]struct {
		handlers []string
		last     string // what the fourth request of a client is told
	}{
		"no headers":           {[]string{handler(off, policy("a", "9", ""))}, "allowed memory a 9 5 "},
		"headers":              {[]string{handler("", policy("a", "9", ""))}, "allowed memory a 9 5 "},
		"IETF's headers":       {[]string{handler(`,"headers":["ietf"]`, policy("a", "9", ""))}, "allowed memory a 9 5 "},
		"two without headers":  {[]string{handler(off, policy("a", "9", "")), handler(off, policy("b", "8", ""))}, "allowed memory b 8 4 "},
		"two of one quota":     {[]string{handler(off, policy("a", "9", "")), handler(off, policy("a", "9", ""))}, "allowed memory a 9 1 "},
		"the inner's headers":  {[]string{handler(off, policy("a", "7", "")), handler("", policy("b", "8", ""))}, "allowed memory a 7 3 "},
		"the outer's headers":  {[]string{handler("", policy("a", "9", "")), handler(off, policy("b", "8", ""))}, "allowed memory b 8 4 "},
		"two policies":         {[]string{handler(off, policy("a", "9", ""), policy("b", "8", ""))}, "allowed memory b 8 4 "},
		"denied":               {[]string{handler(off+answered, policy("a", "3", ""))}, "denied memory a 3 0 "},
		"denied with headers":  {[]string{handler(answered, policy("a", "3", ""))}, "denied memory a 3 0 "},
		"the second denies":    {[]string{handler(off, policy("a", "9", "")), handler(off+answered, policy("b", "3", ""))}, "denied memory b 3 0 "},
		"count_if":             {[]string{handler("", policy("a", "9", `,"count_if":{"status_code":[200]}`))}, "allowed memory a 9 5 "},
		"count_if counts none": {[]string{handler("", policy("a", "9", `,"count_if":{"status_code":[401]}`))}, "allowed memory a 9 9 "},
		"running requests":     {[]string{handler(off, `{"name":"a","max_concurrent":9,"key":"{http.request.header.X-Key}"}`)}, "allowed memory a 9 8 "},
		"a dry run denies":     {[]string{handler(off, policy("a", "9", ""), policy("b", "3", `,"dry_run":true`))}, "allowed memory a 9 5 b"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := lastingContext(t, "")
			var handlers []*Handler
			for _, text := range test.handlers {
				handlers = append(handlers, loadHandler(t, ctx, text))
			}
			var kept []keptRequest
			for range 4 {
				for client := range 5 {
					kept = append(kept, keepRequest(t, handlers, fmt.Sprint(name, client)))
				}
			}
			for _, k := range kept[len(kept)-5:] {
				assert.Equal(t, k.told, test.last, "the placeholders of the fourth request")
			}
			var others sync.WaitGroup
			for range 4 {
				others.Go(func() {
					for range 50 {
						keepRequest(t, handlers, "another")
					}
				})
			}
			for i := range kept {
				k := &kept[i]
				if k.writer != nil {
					_, err := k.writer.Write([]byte(", late"))
					assert.ErrorIf(t, err != nil, "a late write: %v", err)
					assert.Equal(t, k.recorder.Body.String(), k.client+", late", "the response")
				}
				assert.Equal(t, placeholdersOf(k.repl), k.told, "the placeholders after the request")
				assert.Equal(t, fmt.Sprint(k.recorder.Header()), fmt.Sprint(k.header), "the response's header after the request")
			}
			others.Wait()
		})
	}
}
