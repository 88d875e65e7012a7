package requests

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// languageModel starts a backend that answers as the path says: in one document, in a stream that tells its tokens, that
// tells none or that breaks off, or with a failure.
func languageModel(t *testing.T) (address string) {
	t.Helper()
	const event = `data: {"choices":[{"index":0,"delta":{"content":"hello"}}],"usage":null}` + "\n\n"
	return caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err != nil || len(body) == 0 {
			w.WriteHeader(http.StatusInternalServerError) // the body is missing
			return
		}
		answer := ""
		switch _, kind, _ := strings.Cut(r.URL.Path[1:], "/"); kind {
		case "plain":
			w.Header().Set("Content-Type", "application/json")
			answer = `{"choices":[{"message":{"content":"hello"}}],"usage":{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150}}`
		case "failed":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			answer = `{"error":{"message":"no such model"}}`
		case "stream":
			answer = event + `data: {"choices":[],"usage":{"total_tokens":180}}` + "\n\ndata: [DONE]\n\n"
		case "silent":
			answer = event + event + event + "data: [DONE]\n\n"
		case "broken":
			answer = event
		}
		if w.Header().Get("Content-Type") == "" {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		for _, part := range strings.SplitAfter(answer, "\n\n") {
			_, _ = io.WriteString(w, part)
			_ = http.NewResponseController(w).Flush() // it can
		}
		if strings.HasSuffix(r.URL.Path, "broken") {
			panic(http.ErrAbortHandler)
		}
	})
}

// TestBody_tokens takes the tokens that a call to a language model may cost by its body, and settles them by what the answer
// tells.
func TestBody_tokens(t *testing.T) {
	policy := func(path, more string) string {
		return "redis_ratelimit " + path + " { name tokens; key {query.k}; limit 10000; window 400d; algorithm fixed_window; " + more + " }\n"
	}
	caddytest.OnEachStore(t, policy("/ask/*", "weight llm 500; cost llm 50")+policy("/look", "count_if status 418")+"respond /look ok\nreverse_proxy "+languageModel(t), func(t *testing.T, n *caddytest.Node, _ string) {
		content := strings.Repeat("x", 400) // 405 bytes of text with the model and the role: 102 tokens
		call := func(members string) string {
			return `{"model":"m","messages":[{"role":"user","content":"` + content + `"}]` + members + `}`
		}
		for i, test := range []struct {
			path, text  string
			taken, cost int
		}{
			{"plain", call(`,"max_tokens":100,"n":2`), 302, 150},
			{"stream", call(`,"max_tokens":100,"stream":true`), 202, 180},
			{"silent", call(`,"max_tokens":100,"stream":true`), 202, 105},
			{"silent", `{"max_tokens":100}`, 100, 50},
			{"broken", call(`,"max_tokens":100,"stream":true`), 202, 202},
			{"failed", call(`,"max_tokens":100`), 202, 0},
			{"plain", call(``), 602, 150},
			{"plain", call(`,"max_tokens":[100]`), 500, 150},
			{"plain", call(`,"max_tokens":100,"max_tokens":1`), 500, 150},
			{"plain", call(`,"max_tokens":1e12`), 10000, 150},
			{"plain", call(`,"max_tokens":9007199254740992,"n":9007199254740992`), 10000, 150},
			{"plain", call(`,"max_tokens":-5`), 602, 150},
			{"plain", strings.Replace(call(`,"max_tokens":100`), content, strings.Repeat("QUJD", 200), 1), 102, 150}, // a picture in base64
			{"silent", call(`,`), 500, 50},
			{"plain", call(`,"padding":"` + strings.Repeat("x", 1<<20) + `"`), 500, 150},
		} {
			key := fmt.Sprint("?k=", i)
			a, err := n.Try(http.MethodPost, n.URL+"/ask/"+test.path+key, test.text, ofJSON)
			assert.ErrorIf(t, (err != nil) != (test.path == "broken"), "%s: %v", test.path, err)
			a.Want(t, 0, caddytest.Any, fmt.Sprint("X-Ratelimit-Remaining: ", 10000-test.taken))
			checkRemaining(t, n, "/look"+key, fmt.Sprint(10000-test.cost))
		}
		n.Send(t, http.MethodPost, n.URL+"/ask/plain?k=0", call(`,"max_tokens":1000000`), ofJSON).Want(t, http.StatusTooManyRequests, caddytest.Any)
		checkRemaining(t, n, "/look?k=0", "9850")
		n.CheckMetric(t, `invalid_values_total{option="weight",policy="tokens",reason="array"}`, 1)
		n.CheckMetric(t, `invalid_values_total{option="weight",policy="tokens",reason="repeated_name"}`, 1)
		n.CheckMetric(t, `invalid_values_total{option="weight",policy="tokens",reason="size"}`, 1)
	})
}
