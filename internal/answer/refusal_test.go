package answer

import (
	"encoding/json"
	"encoding/xml"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

var update = flag.Bool("update", false, "write the golden files anew")

// refusals are one of each cause, and waits of each kind.
func refusals(t testing.TB) map[string]Refusal {
	t.Helper()
	policies := make([]limiter.Check, 0, 3)
	for _, name := range []string{"api", "day", "ip"} {
		policy := assert.NoError(limiter.NewPolicy(limiter.Settings{Name: name, Algorithm: limiter.GCRA, Limit: 1, Window: time.Hour}))(t)
		policies = append(policies, limiter.Check{Policy: policy, Result: limiter.Result{RetryAfter: 5500 * time.Millisecond}})
	}
	policies[1].Result.RetryAfter = 0
	wait := func(d time.Duration) Wait { return SetRefusal(http.Header{}, nil, d, 0, nil) }
	soon := wait(5500 * time.Millisecond)
	return map[string]Refusal{
		"limited":     {Cause: Limited, Status: 429, Wait: soon, Checks: policies},
		"heavy":       {Cause: Limited, Status: 429, Wait: soon, Checks: policies[:1], Lack: Lack{Left: 8156, Capacity: 10_000, Needed: 10_000}},
		"batch":       {Cause: Limited, Status: 429, Wait: wait(limiter.Never), Checks: policies[:1], Lack: Lack{Left: 0, Capacity: 10, Needed: 11, Largest: 8}},
		"forbidden":   {Cause: Limited, Status: 403, Wait: soon, Checks: policies[:1]},
		"crowded":     {Cause: Crowded, Status: 429, Wait: wait(time.Second), Checks: policies[:1]},
		"banned":      {Cause: Banned, Status: 429, Wait: wait(2 * time.Hour), Checks: policies[:1]},
		"never":       {Cause: Limited, Status: 429, Wait: wait(limiter.Never), Checks: policies[:1]},
		"year":        {Cause: Limited, Status: 429, Wait: wait(365 * 24 * time.Hour), Checks: policies[:1]},
		"unavailable": {Cause: Unavailable, Status: 503, Wait: wait(time.Second), Checks: nil},
		"incomplete":  {Cause: incomplete, Status: 400},
		"large":       {Cause: tooLarge, Status: 413},
		"unsupported": {Cause: unsupported, Status: 415},
		"slow":        {Cause: slow, Status: 408},
		"early":       {Cause: early, Status: 425},
		"held":        {Cause: held, Status: 503},
		"full":        {Cause: held, Status: 503, Wait: wait(time.Second), Checks: nil},
		"late":        {Cause: late, Status: 504},
		"gone":        {Cause: gone, Status: 499},
	}
}

// formNames are the forms by their names in golden files.
var formNames = map[*Form]string{
	nil: "error", &text: "text", &document: "json", &problem: "problem", &none: "none", &grpc: "grpc", &connect: "connect",
	connectStreams["application/connect+proto"]: "connect stream of proto", connectStreams["application/connect+json"]: "connect stream of json",
	&s3: "s3", &registry: "registry", &couchDB: "couchdb", &acme: "acme", &remoteWrite: "remote write", &tus: "tus", &influxWrite: "influx write", &eventStream: "event stream",
	&rpcError: "rpc error", &toolResult: "tool result",
}

// fits reports whether a refusal of a cause has the form.
func fits(form *Form, c Cause) bool {
	switch form {
	case &grpc:
		return true
	case &s3, &acme, &eventStream:
		return c.isDenial()
	case &remoteWrite, &tus, &influxWrite:
		return c.isDenial() || c == Unavailable || c == held
	case &rpcError, &toolResult:
		return c != early && c != gone
	}
	return c != gone
}

// request returns a request of header lines, behind the method and the URI. A line that begins with a brace is its body.
func request(t testing.TB, lines ...string) Request {
	t.Helper()
	method, uri, _ := strings.Cut(lines[0], " ")
	q := Request{Method: method, URL: assert.NoError(url.ParseRequestURI(uri))(t), Header: http.Header{}}
	for _, line := range lines[1:] {
		if line[0] == '{' {
			q.Call = bodyvalue.ReadCall([]byte(line))
			continue
		}
		name, value, _ := strings.Cut(line, ": ")
		q.Header.Add(name, value)
	}
	return q
}

// answered returns the answer to a request, by its form.
func answered(q Request, r Refusal, form *Form) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	for _, name := range ofPages {
		w.Header().Set(name, "5")
	}
	w.Header().Set("Content-Type", "text/html")
	w.Header().Set(grpcPushback, "7")
	form.Write(w, q, r, nil)
	if form != &grpc {
		w.Header().Del(grpcPushback)
	}
	return w
}

// golden writes an answer as it is in golden files.
func golden(w *httptest.ResponseRecorder) string {
	lines := []string{fmt.Sprint(w.Code)}
	for name, values := range w.Header() {
		lines = append(lines, name+": "+strings.Join(values, ", "))
	}
	slices.Sort(lines[1:])
	body := w.Body.String()
	if strings.HasPrefix(body, "\x02") {
		body = fmt.Sprintf("%q", body)
	}
	return strings.Join(lines, "\n") + "\n\n" + body + "\n"
}

// clients are a request of each kind of client, and the form that it gets when it is denied.
var clients = []struct {
	name  string
	form  *Form
	lines []string
}{
	{"curl", &text, []string{"GET /", "Accept: */*"}},
	{"browser", &text, []string{
		"GET /", "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document",
	}},
	{"fetch", &text, []string{"GET /", "Accept: */*", "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty"}},
	{"no header", &text, []string{"GET /"}},
	{"axios", &document, []string{"GET /", "Accept: application/json, text/plain, */*"}},
	{"SDK", &document, []string{
		"POST /v1/chat/completions",
		"Accept: application/json",
		"Content-Type: application/json",
		"X-Stainless-Lang: js",
	}},
	{"MCP, no call", &text, []string{"POST /mcp", acceptsMCP, isJSONBody}},
	{"MCP, first call", &rpcError, []string{"POST /mcp", acceptsMCP, isJSONBody, callBody("initialize")}},
	{"MCP, call of a tool", &toolResult, []string{"POST /mcp", acceptsMCP, isJSONBody, "Mcp-Protocol-Version: 2025-11-25", callBody("tools/call")}},
	{"MCP, call of a tool by header", &toolResult, []string{"POST /mcp", isJSONBody, "Mcp-Method: tools/call", callBody("tools/call")}},
	{"MCP, stream", &text, []string{"GET /mcp", "Accept: text/event-stream", "Mcp-Protocol-Version: 2025-11-25"}},
	{"MCP, end", &text, []string{"DELETE /mcp", "Accept: */*", "Mcp-Protocol-Version: 2025-11-25"}},
	{"JSON-RPC", &document, []string{"POST /", isJSONBody, callBody("tools/call")}},
	{"vendor's JSON", &document, []string{"GET /", "Accept: application/vnd.github+json"}},
	{"JSON of its own", &document, []string{"POST /", "Content-Type: application/json; charset=utf-8", "Accept: */*"}},
	{"problem details", &problem, []string{"GET /", "Accept: application/problem+json, application/json"}},
	{"gRPC", &grpc, []string{"POST /p.S/Call", "Content-Type: application/grpc+proto", "Te: trailers"}},
	{"gRPC-Web", &grpc, []string{"POST /p.S/Call", "Content-Type: application/grpc-web", "X-Grpc-Web: 1", "Accept: application/json"}},
	{"Connect", &connect, []string{"POST /p.S/Call", "Content-Type: application/json", "Connect-Protocol-Version: 1"}},
	{"Connect by GET", &connect, []string{"GET /p.S/Call?connect=v1&encoding=json&message=%7B%7D"}},
	{"Connect's streams", connectStreams["application/connect+proto"], []string{
		"POST /p.S/Call",
		"Content-Type: application/connect+proto",
		"Connect-Protocol-Version: 1",
	}},
	{"S3", &s3, []string{
		"PUT /bucket/key",
		"Authorization: AWS4-HMAC-SHA256 Credential=AKID/20261127/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=00",
	}},
	{"S3 Express", &s3, []string{
		"GET /key",
		"Authorization: AWS4-HMAC-SHA256 Credential=AKID/20261127/us-east-1/s3express/aws4_request,SignedHeaders=host,Signature=00",
	}},
	{"S3 for all regions", &s3, []string{
		"GET /key",
		"Authorization: AWS4-ECDSA-P256-SHA256 Credential=AKID/20261127/s3/aws4_request, SignedHeaders=host, Signature=00",
	}},
	{"S3's signed address", &s3, []string{
		"GET /key?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKID%2F20261127%2Fus-east-1%2Fs3%2Faws4_request",
	}},
	{"S3's signed address in a browser", &text, []string{
		"GET /key?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKID%2F20261127%2Fus-east-1%2Fs3%2Faws4_request", "Accept: text/html", "Sec-Fetch-Mode: navigate",
	}},
	{"DynamoDB", &document, []string{
		"POST /", "Authorization: AWS4-HMAC-SHA256 Credential=AKID/20261127/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=00", "Content-Type: application/json",
	}},
	{"image pull", &registry, []string{"GET /v2/lab/img/manifests/latest", "Accept: application/vnd.oci.image.index.v1+json"}},
	{"blob", &registry, []string{"GET /v2/img/blobs/sha256:00"}},
	{"registry's page", &text, []string{"GET /v2/lab/img/tags/list", "Accept: text/html"}},
	{"registry's version", &text, []string{"GET /v2/"}},
	{"no repository", &text, []string{"GET /v2/manifests/latest"}},
	{"ACME", &acme, []string{"POST /acme/new-order", "Content-Type: application/jose+json"}},
	{"Prometheus", &remoteWrite, []string{
		"POST /api/v1/write",
		"Content-Type: application/x-protobuf",
		"X-Prometheus-Remote-Write-Version: 0.1.0",
	}},
	{"begin of an upload", &tus, []string{"POST /files", "Tus-Resumable: 1.0.0", "Upload-Length: 30000000"}},
	{"part of an upload", &tus, []string{"PATCH /files/1", "Tus-Resumable: 1.0.0", "Upload-Offset: 0", "Content-Type: application/offset+octet-stream"}},
	{"state of an upload", &text, []string{"HEAD /files/1", "Tus-Resumable: 1.0.0"}},
	{"points for InfluxDB", &influxWrite, []string{"POST /api/v2/write?org=o&bucket=b", "Authorization: Token t"}},
	{"points by another scheme", &document, []string{"POST /api/v2/write?org=o&bucket=b", "Authorization: Bearer t", "Accept: application/json"}},
	{"PouchDB's changes", &couchDB, []string{"GET /db/_changes?since=0&limit=5", "Accept: application/json"}},
	{"PouchDB's checkpoint", &couchDB, []string{"PUT /db/_local/id", "Accept: application/json", isJSONBody}},
	{"PouchDB's documents", &couchDB, []string{"POST /couch/db/_bulk_docs", "Accept: application/json", isJSONBody}},
	{"Elasticsearch's node", &document, []string{"GET /_nodes/_local/http/stats", "Accept: application/json"}},
	{"a page of that name", &text, []string{"GET /db/_changes", "Accept: text/html"}},
	{"EventSource", &eventStream, []string{
		"GET /events",
		"Accept: text/event-stream",
		"Cache-Control: no-cache",
		"Sec-Fetch-Mode: cors",
		"Sec-Fetch-Dest: empty",
	}},
	{"fetch of an event stream", &text, []string{"GET /events", "Accept: text/event-stream", "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty"}},
	{"EventSource of node", &text, []string{"GET /events", "Accept: text/event-stream", "Cache-Control: no-cache"}},
}

// Lines of requests of MCP.
const (
	acceptsMCP = "Accept: application/json, text/event-stream"
	isJSONBody = "Content-Type: application/json"
)

// callBody returns a call of a method.
func callBody(method string) string {
	return `{"jsonrpc":"2.0","id":"a\"\u00e9","method":"` + method + `"}`
}

func TestRecognize(t *testing.T) {
	r := refusals(t)["limited"]
	for _, c := range clients {
		got := answerAuto.Form(request(t, c.lines...), r)
		assert.Equal(t, formNames[got], formNames[c.form], "%s", c.name)
		assert.ErrorIf(t, AnswerDefault.Form(request(t, c.lines...), r) != got, "%s: the default is another form", c.name)
	}
}

// TestRecognize_pairs has the headers of two clients in one request. The form that stands first in the order is taken.
func TestRecognize_pairs(t *testing.T) {
	order := []string{"grpc", "connect stream of proto", "connect", "rpc error", "tool result", "s3", "registry", "acme", "remote write", "influx write", "tus",
		"event stream", "couchdb", "json", "problem", "text"}
	r := refusals(t)["limited"]
	for _, a := range clients {
		for _, b := range clients {
			first, second := request(t, a.lines...), request(t, b.lines...)
			if a.form == &text || b.form == &text || first.Method != second.Method || first.Call.Method() != "" && second.Call.Method() != "" {
				continue
			}
			both := Request{Method: first.Method, URL: first.URL, Header: first.Header.Clone(), Call: first.Call}
			if first.Call.Method() == "" {
				both.Call = second.Call
			}
			forms := []string{formNames[a.form]}
			sameAddress := second.URL.Path == first.URL.Path && second.URL.RawQuery == first.URL.RawQuery
			if sameAddress || b.form != &registry && b.form != &couchDB && second.URL.RawQuery == "" { // known by the path
				disjoint := true
				for name, values := range second.Header {
					if earlier := both.Header[name]; earlier != nil && !slices.Equal(earlier, values) {
						disjoint = false
					}
					both.Header[name] = values
				}
				if !disjoint {
					continue
				}
				forms = append(forms, formNames[b.form])
			}
			want := slices.IndexFunc(order, func(name string) bool { return slices.Contains(forms, name) })
			got := formNames[recognize(both, r)]
			assert.Equal(t, got, order[want], "%s and %s", a.name, b.name)
		}
	}
}

// TestRecognize_causes has each client refused for each cause: what is no denial is never an error of S3 or ACME, or an event
// stream, what early data needs is no error of JSON-RPC, and a client that has left gets an answer of gRPC alone.
func TestRecognize_causes(t *testing.T) {
	for cause, r := range refusals(t) {
		for _, c := range clients {
			want := formNames[c.form]
			switch {
			case c.form == &eventStream && (cause == "banned" || cause == "never" || cause == "batch" || cause == "year"):
				want = "text"
			case fits(c.form, r.Cause):
			case cause == "gone":
				want = "error"
			case c.form == &acme:
				want = "json"
			default:
				want = "text"
			}
			assert.Equal(t, formNames[answerAuto.Form(request(t, c.lines...), r)], want, "%s, %s", cause, c.name)
		}
	}
}

// TestForms compares the answers of all forms with golden files, one for each form. -update writes them.
func TestForms(t *testing.T) {
	all := refusals(t)
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for form, name := range formNames {
		if form == nil {
			continue
		}
		q := request(t, "POST /", "Content-Type: application/grpc+proto", "Origin: https://example.org", callBody("tools/call"))
		var seen strings.Builder
		for _, cause := range names {
			r := all[cause]
			if fits(form, r.Cause) {
				fmt.Fprintf(&seen, "== %s\n%s", cause, golden(answered(q, r, form)))
			}
		}
		path := filepath.Join("testdata", strings.ReplaceAll(name, " ", "_")+".txt")
		if *update {
			assert.Must(t, os.MkdirAll("testdata", 0o755))
			assert.Must(t, os.WriteFile(path, []byte(seen.String()), 0o600))
		}
		want := string(assert.NoError(os.ReadFile(path))(t))
		assert.Equal(t, seen.String(), want, "%s", name)
	}
}

// TestForms_wellFormed reads the bodies by the libraries of their types, and counts what an answer to HEAD has.
func TestForms_wellFormed(t *testing.T) {
	for cause, r := range refusals(t) {
		for form, name := range formNames {
			if form == nil || !r.isRead() || !fits(form, r.Cause) {
				continue
			}
			w := answered(request(t, "GET /", "Content-Type: application/grpc", callBody("tools/call")), r, form)
			body := w.Body.Bytes()
			if name == "connect stream of proto" || name == "connect stream of json" {
				assert.FatalIf(t, len(body) < 5 || body[0] != 2 || int(body[4])+int(body[3])<<8 != len(body)-5, "%s of %s: the frame is %q", name, cause, body)
				body = body[5:]
			}
			switch kind := w.Header().Get("Content-Type"); {
			case strings.Contains(kind, "json"), strings.Contains(kind, "connect"):
				var value map[string]any
				assert.ErrorIf(t, json.Unmarshal(body, &value) != nil, "%s of %s: %s", name, cause, body)
			case strings.Contains(kind, "xml"):
				var value struct{ Code, Message string }
				err := xml.Unmarshal(body, &value)
				assert.ErrorIf(t, err != nil || value.Code != "SlowDown" || value.Message == "", "%s of %s: %s", name, cause, body)
			}
			assert.ErrorIf(t, !form.Wrote(w.Header()), "%s of %s: is not known again", name, cause)
			head := answered(request(t, "HEAD /", "Content-Type: application/grpc", callBody("tools/call")), r, form)
			assert.Equal(t, head.Header(), w.Header(), "%s of %s: the header for HEAD", name, cause)
			assert.Equal(t, head.Body.Len(), 0, "%s of %s: bytes for HEAD", name, cause)
		}
	}
}

func TestAnswer_Form(t *testing.T) {
	all := refusals(t)
	for answer, want := range map[Preference]string{
		answerText: "text", answerJSON: "json", answerProblem: "problem",
		answerJSONRPC: "text", answerNone: "none", answerError: "error",
		answerAuto: "grpc", AnswerDefault: "grpc",
	} {
		assert.ErrorIf(t, !answer.IsKnown(), "%q is unknown", answer)
		q := request(t, "POST /", "Content-Type: application/grpc")
		assert.Equal(t, formNames[answer.Form(q, all["limited"])], want, "%q", answer)
		if want != "grpc" {
			want = "error"
		}
		assert.Equal(t, formNames[answer.Form(q, all["gone"])], want, "%q of a client that has left", answer)
	}
	q := request(t, "GET /", "Accept: application/problem+json")
	assert.Equal(t, formNames[answerJSON.Form(q, all["limited"])], "problem", "json for one that names problem details")
	assert.ErrorIf(t, Preference("html").IsKnown(), "html is known")
}

func TestForm_GoesFirst(t *testing.T) {
	all := refusals(t)
	assert.ErrorIf(t, !grpc.GoesFirst(all["limited"]) || !text.GoesFirst(all["early"]) || text.GoesFirst(all["limited"]) || s3.GoesFirst(all["limited"]), "the wrong forms go first")
}

func TestCauseOf(t *testing.T) {
	for status, want := range map[int]Cause{400: incomplete, 408: slow, 413: tooLarge, 415: unsupported, 425: early, 503: held, 504: late, 499: gone, 429: gone, 0: gone} {
		assert.Equal(t, CauseOfStatus(status), want, "%d", status)
	}
}

func prefersJSON(accept []string, own string) bool { return preferredJSON(accept, own) != nil }

// accepts are Accept headers, and whether they prefer JSON.
var accepts = map[string]bool{
	"application/json": true, "APPLICATION/JSON": true, "application/json;q=0.5": true, " application/json ,": true,
	"application/json, */*": true, "application/json;q=0.9, */*;q=0.8": true, "text/plain;q=0.5,application/json": true,
	"application/ld+json": true, "application/json;charset=utf-8;q=1.0": true,

	"": false, "application/json, text/event-stream": false, "*/*;q=0.1": false, "text/html": false, "application/json, text/html": false, "text/html;q=0, application/json": false,
	"application/json;q=0": false, "application/json;q=0.8, text/plain": false, "application/json;q=0.9, */*": false, "application/*": false,
	"application/jsonp": false, "json": false, "+json": true, "application/json;q=2": false, "application/json;q=nan": false,
	"application/json;q=": false, "\xff, application/json": false, "application/json\x00": false, "appl\u0131cation/json": false,
	"a/b;x=\"application/json\"": false,
}

func TestPrefersJSON(t *testing.T) {
	for accept, want := range accepts {
		assert.Equal(t, prefersJSON([]string{accept}, ""), want, "%q", accept)
	}
	assert.ErrorIf(t, !prefersJSON([]string{"text/plain;q=0.5", "application/json"}, ""), "two lines")
	assert.ErrorIf(t, prefersJSON([]string{"application/json", "text/html"}, ""), "two lines with HTML")
	assert.ErrorIf(t, prefersJSON([]string{"application/json," + strings.Repeat(" ", maxHeaderLen)}, ""), "a huge header")
	assert.ErrorIf(t, prefersJSON(slices.Repeat([]string{""}, maxHeaderLen+1), "application/json"), "many lines")
	for own, want := range map[string]bool{"application/json": true, "application/vnd.api+json": true, "application/x-www-form-urlencoded": false, "": false} {
		assert.Equal(t, prefersJSON(nil, own), want, "no Accept, %q", own)
		assert.Equal(t, prefersJSON([]string{"*/*"}, own), want, "anything, %q", own)
		assert.Equal(t, prefersJSON([]string{"text/plain"}, own), false, "text, %q", own)
	}
}

// FuzzRecognize has any bytes where forms look. No answer repeats what a client sent, but for gRPC's content type and the id of
// a call, which the body of the answer has as the client wrote it.
func FuzzRecognize(f *testing.F) {
	const mark = "zq7Q"
	names := []string{"Accept", "Content-Type", "Authorization", "Connect-Protocol-Version", "Mcp-Method"}
	for _, c := range clients {
		q := request(f, c.lines...)
		values := make([]string, len(names))
		for i, name := range names {
			values[i] = q.Header.Get(name)
		}
		body := c.lines[len(c.lines)-1]
		f.Add(q.Method, q.URL.Path, q.URL.RawQuery, values[0], values[1], values[2], values[3], values[4], body)
	}
	f.Add("GET", "/v2/"+mark+"/blobs/"+mark, "connect=v1&"+mark, "application/"+mark+"+json", "application/connect+"+mark, "AWS4-"+mark+"Credential=/s3/", mark, mark, "")
	f.Add("POST", "/", "", "", "application/json", "", "", mark, `{"jsonrpc":"2.0","id":"`+mark+`","method":"`+mark+`"}`)
	r := refusals(f)["limited"]
	f.Fuzz(func(t *testing.T, method, path, query, accept, contentType, authorization, version, mcpMethod, body string) {
		q := Request{Method: method, URL: &url.URL{Path: path, RawQuery: query}, Header: http.Header{}}
		for i, value := range []string{accept, contentType, authorization, version, mcpMethod} {
			if value != "" {
				q.Header[names[i]] = []string{value}
			}
		}
		for _, answer := range []Preference{answerAuto, answerJSONRPC} {
			if q.Method == http.MethodPost && answer.ReadsCall(q, r) {
				q.Call = bodyvalue.ReadCall([]byte(body))
			}
			form := answer.Form(q, r)
			w := httptest.NewRecorder()
			form.Write(w, q, r, nil)
			answered := w.Body.String()
			if form == &rpcError || form == &toolResult {
				var response struct{ ID json.RawMessage }
				assert.Must(t, json.Unmarshal(w.Body.Bytes(), &response))
				assert.Equal(t, string(response.ID), string(q.Call.ID()), "the id")
				answered = strings.Replace(answered, `,"id":`+string(response.ID), "", 1)
			}
			if strings.Contains(answered, mark) || form != &grpc && strings.Contains(fmt.Sprint(w.Header()), mark) {
				t.Errorf("%q is repeated: %v %s", mark, w.Header(), w.Body)
			}
		}
	})
}

// TestForm_Write_again keeps the values of earlier headers, which logs may still have, when the memory for values is given once
// more.
func TestForm_Write_again(t *testing.T) {
	var values FormValues
	q, r := request(t, "GET /"), refusals(t)["limited"]
	first, later := httptest.NewRecorder(), httptest.NewRecorder()
	text.Write(first, q, r, &values)
	problem.Write(later, q, r, &values)
	assert.Equal(t, first.Header().Get("Content-Type"), text.contentType, "the first type")
	assert.Equal(t, later.Header().Get("Content-Type"), problem.contentType, "the later type")
}
