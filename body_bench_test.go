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
// of 1 KiB, and of calls of 4 KiB by their model and by their tokens, which are read as values or, as recipes had to do
// before there were any, searched for by regular expressions. The way without either is that of the header.
func BenchmarkRequest_body(b *testing.B) {
	registerReader()
	policy := func(options string) string {
		return `{"handler":"redis_ratelimit","policies":[{"name":"bench","limit":1000000000,"window":"1h",` + options + `}]},`
	}
	// search sets a variable to what a regular expression finds in the body, where another one finds nothing.
	search := func(variable, found, unless string) string {
		matchers := `"vars_regexp":{"{http.request.body}":{"name":"found","pattern":"` + found + `"}}`
		if unless != "" {
			matchers += `,"not":[{"vars_regexp":{"{http.request.body}":{"pattern":"` + unless + `"}}}]`
		}
		return `{"handler":"request_body","max_size":1000000},{"handler":"subroute","routes":[{"match":[{` + matchers + `}],` +
			`"handle":[{"handler":"vars","` + variable + `":"{http.regexp.found.1}"}]}]},`
	}
	const (
		jsonType, formType = "application/json", "application/x-www-form-urlencoded"
		partsType          = "multipart/form-data; boundary=b"
		byHeader, byJSON   = `"key":"{http.request.header.X-Key}"`, `"key":"{http.redis_ratelimit.json.user}"`
		byForm             = `"key":"{http.redis_ratelimit.form.user}"`
	)
	document := `{"messages":[{"content":"` + strings.Repeat("word ", 200) + `"}],"user":"jane","model":"small"}`
	question := strings.Repeat(`Why is the sky of \"Mars\" red, while the evening there is blue, and what of Venus?\n`, 4)
	call := `{"model":"small","messages":[` + strings.Repeat(`{"role":"user","content":"`+question+`"},`, 9) +
		`{"role":"user","content":"Why?"}],"max_tokens":500,"user":"jane"}`
	form := "more=" + strings.Repeat("word+", 200) + "&user=jane"
	parts := "--b\r\nContent-Disposition: form-data; name=\"more\"\r\n\r\n" + strings.Repeat("word ", 200) +
		"\r\n--b\r\nContent-Disposition: form-data; name=\"user\"\r\n\r\njane\r\n--b--\r\n"
	for _, bench := range []struct{ name, handlers, contentType, body string }{
		{"key=header", policy(byHeader), jsonType, document},
		{"key=json", policy(byJSON), jsonType, document},
		{"key=urlencoded", policy(byForm), formType, form},
		{"key=multipart", policy(byForm), partsType, parts},
		{"call=header", policy(byHeader), jsonType, call},
		{"call=model", policy(`"match":[{"vars":{"{http.redis_ratelimit.json.model}":["small"]}}],` + byHeader), jsonType, call},
		{"call=model-searched", search("model", `\"model\"\\s*:\\s*\"([^\"]*)\"`, `\"model\"\\s*:[\\s\\S]*\"model\"\\s*:|\\\\u00[67]`) +
			policy(`"match":[{"vars":{"{http.vars.model}":["small"]}}],`+byHeader), jsonType, call},
		{"call=tokens", policy(`"weight_from":"llm","weight":10,` + byHeader), jsonType, call},
		{"call=tokens-searched", search("tokens", `(?i)\"max_?(?:completion_?|output_?)?tokens\"\\s*:\\s*([0-9]{1,9})\\b`, "") +
			policy(`"weight_from":"{http.vars.tokens}","weight":10,`+byHeader), jsonType, call},
	} {
		b.Run(bench.name, func(b *testing.B) {
			server := loadServer(b, "", bench.handlers+`{"handler":"bench_reader"},`)
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
