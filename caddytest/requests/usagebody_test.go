package requests

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// usageShape is a response of a public API, written after its documentation, and the paths of what it costs.
type usageShape struct {
	contentType, paths, body string
	cost                     int64
}

// usageShapes are responses of models, of which the recipes have more, and of a shop.
var usageShapes = map[string]usageShape{
	"chat-stream": {"text/event-stream; charset=utf-8", "usage.total_tokens", `data: {"id":"chatcmpl-123","object":"chat.completion.chunk","created":1694268190,"model":"gpt-4o-mini","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-123","object":"chat.completion.chunk","created":1694268190,"model":"gpt-4o-mini","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-123","object":"chat.completion.chunk","created":1694268190,"model":"gpt-4o-mini","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}

data: {"id":"chatcmpl-123","object":"chat.completion.chunk","created":1694268190,"model":"gpt-4o-mini","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":12,"total_tokens":21}}

data: [DONE]

`, 21},
	"messages-stream": {"text/event-stream; charset=utf-8", "usage.input_tokens|message.usage.input_tokens+usage.output_tokens", "event: message_start\r\n" +
		`data: {"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "stop_reason": null, "usage": {"input_tokens": 25, "output_tokens": 1}}}` + "\r\n\r\n" +
		"event: content_block_start\r\n" +
		`data: {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}` + "\r\n\r\n" +
		"event: ping\r\ndata: {\"type\": \"ping\"}\r\n\r\n" +
		"event: content_block_delta\r\n" +
		`data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}}` + "\r\n\r\n" +
		"event: message_delta\r\n" +
		`data: {"type": "message_delta", "delta": {"stop_reason": null}, "usage": {"output_tokens": 7}}` + "\r\n\r\n" +
		"event: message_delta\r\n" +
		`data: {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": 15}}` + "\r\n\r\n" +
		"event: message_stop\r\ndata: {\"type\": \"message_stop\"}\r\n\r\n", 40},
	"lines": {"application/x-ndjson", "prompt_eval_count+eval_count", `{"model":"llama3.2","created_at":"2023-08-04T08:52:19.385406455-07:00","message":{"role":"assistant","content":"The"},"done":false}
{"model":"llama3.2","created_at":"2023-08-04T19:22:45.499127Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","total_duration":4883583458,"prompt_eval_count":26,"prompt_eval_duration":342546000,"eval_count":282,"eval_duration":4535599000}
`, 308},
	"graphql": {"application/graphql-response+json; charset=utf-8", "extensions.cost.actualQueryCost",
		`{"data":{"shop":{"name":"x"}},"extensions":{"cost":{"requestedQueryCost":101,"actualQueryCost":46,"throttleStatus":{"maximumAvailable":1000.0,"currentlyAvailable":954,"restoreRate":50.0}}}}`, 46},
}

// usageUpstream answers with the shape that the path names, in pieces of the length n.
func usageUpstream(t *testing.T) string {
	t.Helper()
	return caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		shape := usageShapes[strings.TrimPrefix(r.URL.Path, "/")]
		w.Header().Set("Content-Type", shape.contentType)
		length, err := strconv.Atoi(r.URL.Query().Get("n"))
		for rest := shape.body; err == nil && len(rest) > 0; {
			n := min(length, len(rest))
			_, _ = io.WriteString(w, rest[:n])
			_ = http.NewResponseController(w).Flush() // it can
			rest = rest[n:]
		}
	})
}

// TestUsageBody_shapes settles the tokens of models and the cost of a query, on both stores and by each
// version of HTTP that a client on TCP has, in one piece, in odd ones and byte by byte.
func TestUsageBody_shapes(t *testing.T) {
	upstream := usageUpstream(t)
	var site strings.Builder
	for name, shape := range usageShapes {
		fmt.Fprintf(&site, "redis_ratelimit /%s {query.k} 100000 400d {\nname %[1]s\nalgorithm fixed_window\nweight 100\ncost json %s 77\n}\n", name, shape.paths)
	}
	site.WriteString("reverse_proxy " + upstream + " {\nflush_interval -1\n}")
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		n := caddytest.Start(t, caddytest.Config(option+"\nservers {\nprotocols h1 h2c\n}\n", site.String()))
		clients := speakers(t)
		for _, version := range []string{"HTTP/1.1", "HTTP/2.0 cleartext"} {
			for name, shape := range usageShapes {
				for _, length := range []int{1, 37, 1 << 20} {
					key := fmt.Sprintf("%c%d", version[5], length)
					ask(t, clients[version], fmt.Sprintf("%s/%s?k=%s&n=%d", n.URL, name, key, length)).Want(t, http.StatusOK, shape.body) // the body as it is
					n.WaitForRefund(t, name, key, 100_000-shape.cost)
				}
			}
		}
		for name := range usageShapes {
			n.CheckMetric(t, `invalid_values_total{option="cost",policy="`+name+`"}`, 0)
		}
	})
}

// TestUsageBody_fallback has responses whose numbers cannot be read. The client gets them as they are.
func TestUsageBody_fallback(t *testing.T) {
	t.Parallel()
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, `{"a":5}`) // to memory
	_ = z.Close()
	bodies := map[string]struct{ contentType, encoding, body string }{
		"zipped": {"application/json", "gzip", zipped.String()},
		"html":   {"text/html", "", `{"a":5}`},
		"broken": {"application/json", "", `{"a":5`},
		"none":   {"", "", ""},
	}
	upstream := caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		body := bodies[strings.TrimPrefix(r.URL.Path, "/")]
		if body.contentType == "" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", body.contentType)
		if body.encoding != "" {
			w.Header().Set("Content-Encoding", body.encoding)
		}
		_, _ = io.WriteString(w, body.body)
	})
	n := caddytest.Start(t, caddytest.Config("", `redis_ratelimit {path} 1000 400d { algorithm fixed_window; cost json a 50 }
	reverse_proxy `+upstream))
	for name, body := range bodies {
		n.Get(t, "/"+name, "Accept-Encoding: gzip").Want(t, 0, body.body, "Content-Encoding: "+body.encoding) // the body as it is
		n.WaitForRefund(t, "default", "/"+name, 950)
	}
	n.CheckMetric(t, `invalid_values_total{option="cost",policy="default"}`, float64(len(bodies)))
	n.Send(t, http.MethodHead, n.URL+"/broken", "") // has no body in which a number could be
	n.WaitForRefund(t, "default", "/broken", 900)
	n.CheckMetric(t, `invalid_values_total{option="cost",policy="default"}`, float64(len(bodies)))
	log := n.Log.String()
	assert.ErrorIf(t, !strings.Contains(log, "json a: "), "the log does not name the path:\n%s", log)
}

// TestUsageBody_prices has factors from placeholders. Where one has no value the fallback counts, and the log
// does not quote it.
func TestUsageBody_prices(t *testing.T) {
	n := caddytest.InProcess(t, `route {
		map {query.model} {price} {discount} { cheap 0.15 0.1; dear 1e-06 0 }
		redis_ratelimit {query.k} 1000000 24h { name mapped; cost json {price}*a-{discount}*b 500 }
		redis_ratelimit {query.k} 1000000 24h { name sent; cost json {header.X-Price}*a+{query.more}*a 500 }
		header Content-Type application/json
		respond "{\"a\":1000,\"b\":501}"
	}`)
	for i, test := range []struct {
		query        string
		headers      []string
		mapped, sent int64
	}{
		{"model=cheap&more=0", []string{"X-Price: 2.5"}, 100, 2500}, // 99.9
		{"model=dear&more=0.9", []string{"X-Price:  0.000001 "}, 1, 901},
		{"model=dear&more=1000000", []string{"X-Price: 0"}, 1, 1_000_000_000},
		{"model=none&more=1", nil, 500, 500},
		{"more=1&more=1", []string{"X-Price: 1"}, 500, 500},
		{"more=1", []string{"X-Price: 1", "X-Price: 1"}, 500, 500},
		{"more=1", []string{"X-Price: 1e3-odd"}, 500, 500},
	} {
		key := fmt.Sprint("k", i)
		n.Get(t, "/?k="+key+"&"+test.query, test.headers...)
		n.WaitForRefund(t, "mapped", key, max(0, 1_000_000-test.mapped))
		n.WaitForRefund(t, "sent", key, max(0, 1_000_000-test.sent))
	}
	n.CheckMetric(t, `invalid_values_total{option="cost",policy="mapped"}`, 4)
	n.CheckMetric(t, `invalid_values_total{option="cost",policy="sent"}`, 4)
	ours := n.Log.Lines(caddytest.Ours)
	text := fmt.Sprint(ours)
	assert.ErrorIf(t, !strings.Contains(text, "is no decimal") || strings.Contains(text, "odd"), "got the log %s; want the placeholder without its value", text)
}

// TestUsageBody_brokenOff has clients that leave, and a server that breaks off, within a stream that has
// told a part of its cost. At least the weight and the fallback stay.
func TestUsageBody_brokenOff(t *testing.T) {
	t.Parallel()
	left := make(chan struct{}, 10)
	upstream := caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "data: {\"a\":%s}\n\n", r.URL.Query().Get("a"))
		_ = http.NewResponseController(w).Flush() // it can
		if r.URL.Query().Has("break") {
			panic(http.ErrAbortHandler)
		}
		<-r.Context().Done()
		left <- struct{}{}
	})
	limit := func(path, option string) string {
		return "redis_ratelimit " + path + " {query.k} 1000 400d {\nname " + path[1:] + "\nalgorithm fixed_window\n" + option + "\n}\n"
	}
	n := caddytest.Start(t, caddytest.Config("", limit("/one", "cost json a 50")+limit("/more", "weight 100\ncost json a 50")+"reverse_proxy "+upstream))
	for _, test := range []struct {
		path, a string
		remain  int64
	}{
		{"one", "7", 950}, {"one", "70", 930}, {"one", "null", 950},
		{"more", "7", 900}, {"more", "170", 830}, {"more", "null", 900},
	} {
		for _, end := range []string{"leave", "break"} {
			key := end + test.a
			ctx, leave := context.WithCancel(t.Context())
			response := assert.NoError(n.Client.Do(caddytest.GetRequest(ctx, t, fmt.Sprintf("%s/%s?k=%s&a=%s&%s", n.URL, test.path, key, test.a, end))))(t)
			if _, err := io.ReadFull(response.Body, make([]byte, 5)); err != nil {
				t.Fatal(err)
			}
			if end == "leave" {
				leave()
				<-left
			}
			n.WaitForRefund(t, test.path, key, test.remain)
			leave()
			_ = response.Body.Close()
		}
	}
}

// TestUsageBody_severalPolicies has two policies that read one body, and a handler further in that reads it
// before it is compressed.
func TestUsageBody_severalPolicies(t *testing.T) {
	n := caddytest.InProcess(t, `route {
		redis_ratelimit {
			policy in { key same; limit 1000; window 24h; cost json usage.in 50 }
			policy both { key same; limit 1000; window 24h; weight 10; cost json usage.in+usage.out 50 }
		}
		encode { gzip; minimum_length 1 }
		redis_ratelimit same 1000 24h { name inner; cost json usage.out 50 }
		header Content-Type application/json
		respond `+"`"+`{"usage":{"in":3,"out":4},"text":"`+strings.Repeat("x", 1000)+`"}`+"`"+`
	}`)
	n.Get(t, "/").Want(t, http.StatusOK, caddytest.Any)
	n.WaitForRefund(t, "in", "same", 997)
	n.WaitForRefund(t, "both", "same", 993)
	n.WaitForRefund(t, "inner", "same", 996)
	n.Get(t, "/", "Accept-Encoding: gzip").Want(t, 0, caddytest.Any, "Content-Encoding: gzip")
	n.WaitForRefund(t, "in", "same", 947) // the fallback: the outer handler sees what is compressed
	n.WaitForRefund(t, "both", "same", 943)
	n.WaitForRefund(t, "inner", "same", 992)
}

// TestUsageBody_file is a file, which Caddy sends by ReadFrom.
func TestUsageBody_file(t *testing.T) {
	folder := t.TempDir()
	body := `{"text":"` + strings.Repeat("x", 1<<20) + `","size":7}`
	assert.Must(t, os.WriteFile(filepath.Join(folder, "a.json"), []byte(body), 0o600))
	n := caddytest.InProcess(t, `redis_ratelimit {query.k} 1000 400d { algorithm fixed_window; cost json size 50 }
	root * `+folder+`
	file_server`)
	n.Get(t, "/a.json?k=whole").Want(t, 0, body)
	n.WaitForRefund(t, "default", "whole", 993)
	n.Get(t, "/a.json?k=range", "Range: bytes=0-9").Want(t, http.StatusPartialContent, body[:10])
	n.WaitForRefund(t, "default", "range", 950)
}

// TestUsageBody_compressed has a site whose upstream is asked for no compression, so that only Caddy's encode compresses.
// The warning names encode, and what it says to write puts an end to it.
func TestUsageBody_compressed(t *testing.T) {
	t.Parallel()
	const limit = "redis_ratelimit same 1000 24h {\nname usage\ncost json usage.out 50\n}\n"
	backend := caddytest.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"usage":{"out":4},"text":"`+strings.Repeat("x", 1000)+`"}`)
	})
	encode := "encode gzip\n"
	proxy := "reverse_proxy " + backend + " {\nheader_up Accept-Encoding identity\n}\n"
	n := caddytest.Start(t, caddytest.Config("", limit+encode+proxy))
	warnings := func() []caddytest.LogLine {
		return n.Log.Lines(func(l caddytest.LogLine) bool { return strings.Contains(l.Message, "cannot be used") })
	}
	n.Get(t, "/", "Accept-Encoding: gzip").Want(t, 0, caddytest.Any, "Content-Encoding: gzip")
	n.WaitForRefund(t, "usage", "same", 950)
	found := warnings()
	assert.FatalIf(t, len(found) != 1 || !strings.Contains(found[0].Text, "write Caddy's encode before this directive, both into a route"), "the log has %v", found)
	n.Reload(t, caddytest.Config("", "route {\n"+encode+limit+proxy+"}\n"))
	n.Get(t, "/", "Accept-Encoding: gzip").Want(t, 0, caddytest.Any, "Content-Encoding: gzip")
	n.WaitForRefund(t, "usage", "same", 946)
	n.CheckMetric(t, `invalid_values_total{option="cost",policy="usage"}`, 1)
}
