package redisratelimit

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// leaving are handlers around a client that leaves when leave is called.
type leaving func(w http.ResponseWriter, leave func()) error

// cutWriter takes so many bytes. Like that of HTTP/2 it reports that nothing of a piece was sent that it does not
// take wholly.
type cutWriter struct {
	*httptest.ResponseRecorder
	room int
}

func (w *cutWriter) Write(data []byte) (int, error) {
	if w.room -= len(data); w.room < 0 {
		return 0, errors.New("client disconnected")
	}
	return w.ResponseRecorder.Write(data)
}

// bodyOf writes a body of a type, has the client leave at once, and returns.
func bodyOf(contentType, body string) leaving {
	return func(w http.ResponseWriter, leave func()) error {
		w.Header().Set("Content-Type", contentType)
		_, err := io.WriteString(w, body)
		leave()
		return err
	}
}

// bytesOf writes so many bytes in pieces of a length, and ends as handlers do whose write fails.
func bytesOf(length, piece int) leaving {
	return func(w http.ResponseWriter, _ func()) error {
		for left := length; left > 0; left -= piece {
			if _, err := w.Write(make([]byte, min(left, piece))); err != nil {
				return err
			}
		}
		return nil
	}
}

// aborted ends handlers as reverse_proxy does where what is behind it or the client breaks off.
func aborted(before leaving) leaving {
	return func(w http.ResponseWriter, leave func()) error {
		if err := before(w, leave); err != nil {
			return err
		}
		panic(http.ErrAbortHandler)
	}
}

// headerOf writes a status with a cost, and so many bytes.
func headerOf(status int, cost string, length int) leaving {
	return func(w http.ResponseWriter, leave func()) error {
		if cost != "" {
			w.Header().Set("X-Cost", cost)
		}
		w.WriteHeader(status)
		return bytesOf(length, 10)(w, leave)
	}
}

func failing(status int) leaving {
	return func(http.ResponseWriter, func()) error { return caddyhttp.Error(status, errors.New("broken")) }
}

// refusing ends handlers as this module refuses a request.
func refusing(status int) leaving {
	return func(http.ResponseWriter, func()) error { return rule.Refuse(status, errors.New("refused")) }
}

// closed ends handlers with a 503 of a place in the code; by default that of Caddy's error handler.
func closed(place, text string) leaving {
	return func(w http.ResponseWriter, _ func()) error {
		if place != "" {
			return caddyhttp.HandlerError{StatusCode: http.StatusServiceUnavailable, Err: errors.New(text), Trace: place}
		}
		r := caddyhttp.PrepareRequest(httptest.NewRequest(http.MethodGet, "/", nil), caddy.NewReplacer(), w, &caddyhttp.Server{})
		return (&caddyhttp.StaticError{StatusCode: "503"}).ServeHTTP(w, r, nil)
	}
}

// costly tells a cost in the header first.
func costly(then leaving) leaving {
	return func(w http.ResponseWriter, leave func()) error {
		w.Header().Set("X-Cost", "40")
		return then(w, leave)
	}
}

// refusedWith writes a body of a type with the status 400.
func refusedWith(contentType, body string) leaving {
	return func(w http.ResponseWriter, _ func()) error {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(http.StatusBadRequest)
		_, err := io.WriteString(w, body)
		return err
	}
}

// left has the client leave first.
func left(then leaving) leaving {
	return func(w http.ResponseWriter, leave func()) error {
		leave()
		return then(w, leave)
	}
}

// unnoticed answers, and ignores that a write fails, as Caddy's respond does.
func unnoticed(answer leaving) leaving {
	return func(w http.ResponseWriter, leave func()) error {
		_ = answer(w, leave)
		return nil
	}
}

// TestCost_outcomes has the table of what a request is charged by its response: with a weight of 100, and with one
// of 1, which is never given back.
func TestCost_outcomes(t *testing.T) {
	const document, events = "application/json", "text/event-stream"
	const header, body, sent = `"{http.response.header.X-Cost}"`, `"json a"`, `"response_bytes"`
	const factors, price = `"json 2.5*a-b"`, `"json {http.request.header.X-Price}*a"`
	const judged = header + `,"count_if":{"status_code":[403]}`
	const done = "data: {\"a\":40}\n\ndata: [DONE]\n\n"
	for name, test := range map[string]struct {
		source, fallback string
		inside           leaving
		proto, room      int
		want, wantOfOne  int64
		invalid          int64
	}{
		"complete by its header":           {header, "70", headerOf(200, "40", 0), 1, 0, 40, 40, 0},
		"complete and free":                {header, "70", headerOf(200, "0", 0), 1, 0, 0, 1, 0},
		"complete without a cost":          {header, "70", headerOf(200, "", 0), 1, 0, 70, 70, 1},
		"complete with no number":          {header, "70", headerOf(200, "many", 0), 1, 0, 70, 70, 1},
		"complete below 0":                 {header, "70", headerOf(200, "-1", 0), 1, 0, 70, 70, 1},
		"complete above 2^52":              {header, "70", headerOf(200, "4503599627370497", 0), 1, 0, 70, 70, 1},
		"complete without a fallback":      {header, "0", headerOf(200, "", 0), 1, 0, 0, 1, 1},
		"closed after the last byte":       {header, "70", bodyOf("text/plain", "all"), 1, 10, 70, 70, 1},
		"told by its header, broken off":   {header, "170", aborted(headerOf(200, "40", 10)), 1, 10, 40, 40, 0},
		"untold by its header, broken off": {header, "70", aborted(headerOf(200, "", 10)), 1, 10, 100, 70, 0},
		"the same with a larger fallback":  {header, "170", aborted(headerOf(200, "", 10)), 1, 10, 170, 170, 0},
		"the same without a fallback":      {header, "0", aborted(headerOf(200, "", 10)), 1, 10, 100, 1, 0},
		"untold, a write fails":            {header, "70", unnoticed(bodyOf("text/plain", "all")), 1, 2, 100, 70, 0},
		"no response":                      {header, "70", func(http.ResponseWriter, func()) error { return nil }, 1, 0, 70, 70, 1},
		"left before the response":         {header, "170", left(headerOf(499, "", 0)), 1, 0, 170, 170, 0},
		"left and no response":             {header, "70", left(func(http.ResponseWriter, func()) error { return nil }), 1, 0, 100, 70, 0},
		"an upstream's 499":                {header, "70", headerOf(499, "40", 0), 1, 0, 40, 40, 0},
		"an error":                         {header, "170", failing(404), 1, 0, 0, 1, 0},
		"an error with a cost":             {header, "70", costly(failing(401)), 1, 0, 40, 40, 0},
		"an error, and left":               {header, "170", left(failing(404)), 1, 0, 170, 170, 0},
		"failed":                           {header, "70", failing(502), 1, 0, 100, 70, 0},
		"failed, a larger fallback":        {header, "170", failing(502), 1, 0, 170, 170, 0},
		"stalled":                          {header, "70", failing(504), 1, 0, 100, 70, 0},
		"refused by this module":           {header, "70", refusing(429), 1, 0, 0, 1, 0},
		"refused by this module, with 503": {header, "170", refusing(503), 1, 0, 0, 1, 0},
		"refused, whatever it tells":       {header, "70", costly(refusing(429)), 1, 0, 0, 1, 0},
		"refused because it is late":       {header, "170", refusing(408), 1, 0, 0, 1, 0},
		"refused because it is early":      {header, "170", refusing(425), 1, 0, 0, 1, 0},
		"refused because it is gone":       {header, "170", left(refusing(499)), 1, 0, 0, 1, 0},
		"the error handler":                {header, "70", closed("", ""), 1, 0, 0, 1, 0},
		"the error handler, with a cost":   {header, "70", costly(closed("", "")), 1, 0, 40, 40, 0},
		"no upstream":                      {header, "70", closed("reverseproxy.F", "no upstreams available"), 1, 0, 0, 1, 0},
		"no upstream, whatever it tells":   {header, "70", costly(closed("reverseproxy.F", "no upstreams available")), 1, 0, 0, 1, 0},
		"no upstream, and left":            {header, "70", left(closed("reverseproxy.F", "no upstreams available")), 1, 0, 100, 70, 0},
		"another 503 of the proxy":         {header, "70", closed("reverseproxy.F", "other"), 1, 0, 100, 70, 0},
		"another module's 503":             {header, "70", closed("other.F", "no upstreams available"), 1, 0, 100, 70, 0},
		"refused with a status":            {header, "70", headerOf(429, "", 10), 1, 10, 0, 1, 0},
		"refused, with a cost":             {header, "70", headerOf(429, "40", 10), 1, 10, 40, 40, 0},
		"refused, with no number":          {header, "70", headerOf(429, "many", 10), 1, 10, 0, 1, 1},
		"failed, with a status":            {header, "70", headerOf(500, "", 10), 1, 10, 0, 1, 0},
		"overloaded, broken off":           {header, "70", aborted(headerOf(529, "", 10)), 1, 10, 100, 70, 0},
		"unchanged":                        {header, "70", headerOf(304, "", 0), 1, 0, 70, 70, 1},

		"a document":                     {body, "70", bodyOf(document, `{"a":40}`), 1, 20, 40, 40, 0},
		"a document, broken off behind":  {body, "70", aborted(bodyOf(document, `{"a":40}`)), 1, 20, 40, 40, 0},
		"a document that is not taken":   {body, "70", bodyOf(document, `{"a":40}`), 2, 5, 40, 40, 0},
		"a document without a cost":      {body, "70", aborted(bodyOf(document, `{"b":40}`)), 1, 20, 70, 70, 1},
		"a document, broken off":         {body, "70", aborted(bodyOf(document, `{"a":40`)), 1, 20, 100, 70, 0},
		"an invalid document":            {body, "70", bodyOf(document, `{"a":40`), 1, 20, 70, 70, 1},
		"events":                         {body, "70", bodyOf(events, done), 1, 50, 40, 40, 0},
		"events, broken off behind":      {body, "70", aborted(bodyOf(events, done)), 1, 50, 40, 40, 0},
		"events that are not taken":      {body, "70", bodyOf(events, done), 2, 20, 40, 40, 0},
		"events, broken off within":      {body, "70", aborted(bodyOf(events, "data: {\"a\":40}\n\n")), 1, 50, 100, 70, 0},
		"told so far":                    {body, "70", aborted(bodyOf(events, "data: {\"a\":240}\n\n")), 1, 50, 240, 240, 0},
		"events without an end":          {body, "70", bodyOf(events, "data: {\"a\":40}\n\n"), 1, 50, 40, 40, 0},
		"untold, with a larger fallback": {body, "170", aborted(bodyOf(events, "data: {\"a\":40}\n\n")), 1, 50, 170, 170, 0},
		"left before the header":         {body, "70", left(headerOf(499, "", 0)), 1, 0, 100, 70, 0},
		"broken off before the header":   {body, "70", left(aborted(bytesOf(0, 1))), 1, 0, 100, 70, 0},
		"an error, without a body":       {body, "70", failing(404), 1, 0, 0, 1, 0},
		"refused, as a document":         {body, "70", refusedWith(document, `{"error":{}}`), 1, 20, 0, 1, 0},
		"refused, with a cost in it":     {body, "70", refusedWith(document, `{"a":40}`), 1, 20, 40, 40, 0},
		"refused, as another type":       {body, "70", refusedWith("text/html", `<a>`), 1, 20, 0, 1, 0},
		"refused, as a cut document":     {body, "70", aborted(refusedWith(document, `{"error":{}`)), 1, 20, 100, 70, 0},
		"of another type":                {body, "70", aborted(bodyOf("text/html", "<a>")), 1, 20, 100, 70, 1},

		"factors":               {factors, "70", bodyOf(document, `{"a":40,"b":60}`), 1, 20, 40, 40, 0},
		"factors, broken off":   {factors, "70", aborted(bodyOf(events, "data: {\"a\":100}\n\n")), 1, 50, 250, 250, 0},
		"factors, below 0":      {factors, "70", bodyOf(document, `{"a":1,"b":60}`), 1, 20, 0, 1, 0},
		"no price":              {price, "70", bodyOf(document, `{"a":40}`), 1, 20, 70, 70, 1},
		"no price, broken off":  {price, "70", aborted(bodyOf(events, "data: {\"a\":40}\n\n")), 1, 50, 100, 70, 1},
		"no number, broken off": {price, "70", aborted(bodyOf(events, "data: {\"b\":40}\n\n")), 1, 50, 100, 70, 0},

		"bytes":                           {sent, "0", bytesOf(1000, 10), 1, 1000, 1000, 1000, 0},
		"bytes, broken off":               {sent, "0", aborted(bytesOf(50, 10)), 1, 1000, 50, 50, 0},
		"bytes, failed":                   {sent, "0", bytesOf(1000, 10), 1, 55, 50, 50, 0},
		"bytes, failed over HTTP/2":       {sent, "0", bytesOf(1000, 10), 2, 55, 60, 60, 0},
		"bytes, a long one over HTTP/2":   {sent, "0", bytesOf(1000_000, 1000_000), 2, 40_000, 2 * 32 << 10, 2 * 32 << 10, 0},
		"bytes, broken off before":        {sent, "0", aborted(bytesOf(0, 1)), 1, 0, 100, 1, 0},
		"bytes, left before":              {sent, "0", left(headerOf(499, "", 0)), 1, 0, 100, 1, 0},
		"bytes, an error":                 {sent, "0", failing(404), 1, 0, 0, 1, 0},
		"bytes, refused by this module":   {sent, "0", refusing(429), 1, 0, 0, 1, 0},
		"bytes, failed before":            {sent, "0", failing(502), 1, 0, 100, 1, 0},
		"bytes, none":                     {sent, "0", headerOf(200, "", 0), 1, 0, 0, 1, 0},
		"bytes of a response without any": {sent, "0", headerOf(500, "", 0), 1, 0, 0, 1, 0},

		"not counted":                {judged, "70", headerOf(200, "40", 0), 1, 0, 0, 0, 0},
		"not counted, and an error":  {judged, "70", failing(401), 1, 0, 0, 0, 0},
		"counted":                    {judged, "70", headerOf(403, "40", 0), 1, 0, 40, 40, 0},
		"counted, and an error":      {judged, "70", failing(403), 1, 0, 0, 1, 0},
		"not counted, no backend":    {judged, "70", closed("reverseproxy.F", "no upstreams available"), 1, 0, 0, 0, 0},
		"not counted, refused":       {judged, "70", left(refusing(499)), 1, 0, 0, 0, 0},
		"counted, and refused":       {judged, "70", refusing(403), 1, 0, 0, 1, 0},
		"counted because it failed":  {judged, "70", failing(502), 1, 0, 100, 70, 0},
		"counted because it is gone": {judged, "70", left(headerOf(200, "", 0)), 1, 0, 70, 70, 1},
	} {
		for weight, want := range map[string]int64{"100": test.want, "1": test.wantOfOne} {
			t.Run(name+"/"+weight, func(t *testing.T) {
				ctx, end := newContext(t, "")
				defer end()
				h := loadHandler(t, ctx, `{"policies":[{"name":"cost","key":"x","limit":1000000,"window":"24h","weight":`+weight+`,"cost_from":`+
					test.source+`,"cost":`+test.fallback+`}]}`)
				invalid := int64(0)
				warn := h.limiter.Rules.Warn
				h.limiter.Rules.Warn = func(r *rule.Rule, option string, err error) {
					invalid++
					warn(r, option, err)
				}
				answerOnce(t, h, test.inside, test.proto, test.room)
				c := limiter.Check{Policy: h.limiter.Rules.Rules[0].Policy, Key: limiter.EncodeKey("x"), Weight: 1, Peek: true}
				h.app.opened.PeekLocal(&c)
				if charged := 1_000_000 - c.Result.Remaining; charged != want || invalid != test.invalid {
					t.Errorf("charged %d with %d invalid values, want %d and %d", charged, invalid, want, test.invalid)
				}
			})
		}
	}
}

// answerOnce has handlers answer a request, to a client that takes so many bytes.
func answerOnce(t *testing.T, h *Handler, inside leaving, proto, room int) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	w := &cutWriter{httptest.NewRecorder(), room}
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	r.ProtoMajor = proto
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, &caddyhttp.Server{})
	defer func() {
		if reason := recover(); reason != nil && reason != http.ErrAbortHandler { //nolint:errorlint // it is that value
			panic(reason)
		}
	}()
	_ = h.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error { return inside(w, leave) })) // some fail
}
