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

// invokedModel starts a backend that answers as Bedrock's InvokeModel, with counts of tokens in the header, and a body that
// tells as many, more or none. It breaks answers off within the body.
func invokedModel(t *testing.T) (address string) {
	t.Helper()
	return caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		kind := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Amzn-Bedrock-Input-Token-Count", "30")
		w.Header().Set("X-Amzn-Bedrock-Output-Token-Count", "12")
		answer := `{"generation":"Hello."}`
		switch kind {
		case "same":
			answer = `{"content":[],"usage":{"input_tokens":30,"output_tokens":12}}`
		case "more":
			answer = `{"content":[],"usage":{"input_tokens":30,"output_tokens":13}}`
		case "negative":
			w.Header().Set("X-Amzn-Bedrock-Output-Token-Count", "-12")
		case "twice":
			w.Header().Add("X-Amzn-Bedrock-Output-Token-Count", "12")
		case "cached":
			w.Header().Set("X-Amzn-Bedrock-Cache-Read-Input-Token-Count", "300")
			w.Header().Set("X-Amzn-Bedrock-Cache-Write-Input-Token-Count", "20")
		case "failed":
			w.Header().Del("X-Amzn-Bedrock-Input-Token-Count")
			w.Header().Del("X-Amzn-Bedrock-Output-Token-Count")
			w.WriteHeader(http.StatusBadRequest)
			answer = `{"message":"no such model"}`
		case "stream":
			w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
		case "broken":
			w.Header().Set("Content-Length", "1000")
			answer = `{"content":[],"usage":{"input_tokens":30,`
		}
		_, _ = io.WriteString(w, answer)
		_ = http.NewResponseController(w).Flush() // it can
		if kind == "broken" {
			panic(http.ErrAbortHandler)
		}
	})
}

// TestTokenHeader charges what the header tells where the body does not, also if a handler outside keeps the header from the
// client.
func TestTokenHeader(t *testing.T) {
	const limit = "{query.k} 100000 400d {\nname tokens\nalgorithm fixed_window\n"
	site := "header /hidden/* -X-Amzn-*\nredis_ratelimit /look " + limit + "count_if status 418\n}\nrespond /look ok\n" +
		"@asks not path /look\nredis_ratelimit @asks " + limit + "weight llm 500\ncost llm 4000\n}\nencode {\ngzip\nminimum_length 1\n}\nreverse_proxy " + invokedModel(t)
	caddytest.OnEachStore(t, site, func(t *testing.T, n *caddytest.Node, _ string) {
		for i, test := range []struct {
			path string
			cost int
		}{
			{"/none", 42}, {"/hidden/none", 42}, {"/same", 42}, {"/more", 43}, {"/cached", 362}, {"/failed", 0},
			{"/broken", 42}, {"/hidden/broken", 42}, {"/negative", 4000}, {"/twice", 4000}, {"/stream", 4000},
		} {
			key := fmt.Sprint("?k=", i)
			a, err := n.Try(http.MethodPost, n.URL+test.path+key, `{"max_tokens":1000}`, ofJSON)
			assert.ErrorIf(t, (err != nil) != strings.HasSuffix(test.path, "broken"), "%s: %v", test.path, err)
			hidden, got := strings.HasPrefix(test.path, "/hidden"), a.Header.Get("X-Amzn-Bedrock-Input-Token-Count")
			assert.ErrorIf(t, hidden != (got == "") && test.path != "/failed", "%s: the client gets the count %q", test.path, got)
			checkRemaining(t, n, "/look"+key, fmt.Sprint(100_000-test.cost))
		}
		n.CheckMetric(t, `invalid_values_total{option="cost",policy="tokens"}`, 3)
	})
}
