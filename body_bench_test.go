package redisratelimit

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// registerReader registers the handler for benchmarks alone: a test lists the modules.
var registerReader = sync.OnceFunc(func() { caddy.RegisterModule(reader{}) })

// reader is a handler that reads the body, as a proxy does.
type reader struct{}

func (reader) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.bench_reader", New: func() caddy.Module { return new(reader) }}
}

func (reader) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return err
	}
	return next.ServeHTTP(w, r)
}

// BenchmarkRequest_body measures requests with a body that the handler behind reads: by a key of the header, by keys of bodies
// of 1 KiB, and by matchers of a document of 4 KiB, which read one value, or the tokens of a call, or search all of it
// by a regular expression.
func BenchmarkRequest_body(b *testing.B) {
	registerReader()
	policy := func(options string) string {
		return `{"handler":"redis_ratelimit","policies":[{"name":"bench","limit":1000000000,"window":"1h",` + options + `}]},`
	}
	const (
		jsonType, formType = "application/json", "application/x-www-form-urlencoded"
		partsType          = "multipart/form-data; boundary=b"
		byHeader, byJSON   = `"key":"{http.request.header.X-Key}"`, `"key":"{http.redis_ratelimit.json.user}"`
		byForm             = `"key":"{http.redis_ratelimit.form.user}"`
		byModel            = `"match":[{"vars_regexp":{"{http.redis_ratelimit.json.model}":{"pattern":"^(gpt-5|claude-opus-)"}}}]`
		bySearch           = `"match":[{"vars_regexp":{"{http.request.body}":{"pattern":"\"model\"\\s*:\\s*\"(gpt-5|claude-opus-)"}}}]`
		byTokens           = `"weight_from":"llm","weight":10`
		byTokensSearched   = `"match":[{"vars_regexp":{"{http.request.body}":{"pattern":"(?i)\"max_?(?:completion_?|output_?)?tokens\"\\s*:\\s*([0-9]{1,9})\\b"}}}]`
	)
	document := func(length int) string {
		return `{"messages":[{"content":"` + strings.Repeat("word ", length/5) + `"}],"user":"jane","model":"small"}`
	}
	form := "more=" + strings.Repeat("word+", 200) + "&user=jane"
	parts := "--b\r\nContent-Disposition: form-data; name=\"more\"\r\n\r\n" + strings.Repeat("word ", 200) +
		"\r\n--b\r\nContent-Disposition: form-data; name=\"user\"\r\n\r\njane\r\n--b--\r\n"
	for _, bench := range []struct{ name, options, contentType, body string }{
		{"key=header", byHeader, jsonType, document(1000)},
		{"key=json", byJSON, jsonType, document(1000)},
		{"key=urlencoded", byForm, formType, form},
		{"key=multipart", byForm, partsType, parts},
		{"match=value", byModel, jsonType, document(4000)},
		{"match=search", bySearch, jsonType, document(4000)},
		{"tokens=llm", byTokens, jsonType, document(4000)},
		{"tokens=search", byTokensSearched, jsonType, document(4000)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			server := loadServer(b, "", policy(bench.options)+`{"handler":"bench_reader"},`)
			r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/", nil)
			r.Header.Set("X-Key", "jane")
			r.Header.Set("Content-Type", bench.contentType)
			r.ContentLength = int64(len(bench.body))
			w := &sink{header: http.Header{}}
			for b.Loop() {
				clear(w.header)
				ctx, end := context.WithCancel(context.Background())
				sent := r.WithContext(ctx)
				sent.Body = io.NopCloser(bytes.NewReader([]byte(bench.body)))
				server.ServeHTTP(w, sent)
				end()
			}
			b.ReportAllocs()
		})
	}
}
