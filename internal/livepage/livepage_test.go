package livepage

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

const host = "127.0.0.1:9000"

// testServer serves a page whose admin endpoint repeats what a viewer has.
func testServer() *Server {
	return New(host, "caddy redis-ratelimit", ` --address '"<b>'`, func(_ context.Context, since string) (int, []byte, error) {
		if since == "error" {
			return 0, nil, errors.New("no Caddy <answers>")
		}
		return http.StatusOK, []byte(`{"since":"` + since + `"}`), nil
	})
}

// ask sends a request with header fields, written "name: value"; the field Host sets the host.
func ask(s *Server, method, path string, fields ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://"+host+path, nil)
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		if r.Header.Add(name, value); name == "Host" {
			r.Host = value
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// open opens the address, and returns the header fields that then make a request the page's own.
func open(t *testing.T, s *Server) (cookie, key string) {
	t.Helper()
	w := ask(s, http.MethodGet, strings.TrimPrefix(s.Address(), "http://"+host))
	_, rest, _ := strings.Cut(w.Body.String(), "/#")
	cookies := w.Result().Cookies()
	assert.FatalIf(t, w.Code != http.StatusOK || len(cookies) != 1, "%d %v", w.Code, cookies)
	c := cookies[0]
	assert.ErrorIf(t, !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 0 ||
		c.Name != "redis_ratelimit_page_9000", "the cookie is %v", c)
	return "Cookie: " + c.Name + "=" + c.Value, keyHeader + ": " + rest[:32]
}

// TestServer_access asks with and without each of what the page needs.
func TestServer_access(t *testing.T) {
	t.Parallel()
	s := testServer()
	link := strings.TrimPrefix(s.Address(), "http://"+host)
	assert.Equal(t, len(strings.TrimPrefix(link, openPath)), 32, "digits of the address")
	for _, wrong := range []string{link[:len(link)-1], link + "0", openPath, openPath + strings.Repeat("0", 32)} {
		assert.Equal(t, ask(s, http.MethodGet, wrong).Code, http.StatusForbidden, "a wrong address")
	}
	assert.Equal(t, ask(s, http.MethodHead, link).Code, http.StatusMethodNotAllowed, "a look at the address does not use it up")
	assert.Equal(t, ask(s, http.MethodGet, link, "Host: localhost:9000").Code, http.StatusMisdirectedRequest, "another name")
	cookie, key := open(t, s)
	assert.Equal(t, ask(s, http.MethodGet, link).Code, http.StatusForbidden, "the address again")
	otherCookie, otherKey := open(t, testServer())
	for _, c := range []struct {
		what, method, path string
		fields             []string
		status             int
	}{
		{"the page", "GET", "/", []string{cookie}, 200},
		{"the page, without a cookie", "GET", "/", nil, 403},
		{"the page, by a cookie of another command", "GET", "/", []string{otherCookie}, 403},
		{"the page, by another name", "GET", "/", []string{cookie, "Host: evil.example:9000"}, 421},
		{"the page, by another port", "GET", "/", []string{cookie, "Host: 127.0.0.1:9001"}, 421},
		{"the page, posted", "POST", "/", []string{cookie}, 405},
		{"another page", "GET", "/x", []string{cookie}, 404},
		{"the data", "GET", "/data", []string{cookie, key}, 200},
		{"the data, for the page's script", "GET", "/data?since=a.1.2", []string{cookie, key, "Sec-Fetch-Site: same-origin"}, 200},
		{"the data, without a key", "GET", "/data", []string{cookie}, 403},
		{"the data, without a cookie", "GET", "/data", []string{key}, 403},
		{"the data, by another key", "GET", "/data", []string{cookie, otherKey}, 403},
		{"the data, for a server on another port, which gets the cookie", "GET", "/data", []string{cookie, keyHeader + ": "}, 403},
		{"the data, for another site", "GET", "/data", []string{cookie, key, "Sec-Fetch-Site: cross-site"}, 403},
		{"the data, for another port", "GET", "/data", []string{cookie, key, "Sec-Fetch-Site: same-site"}, 403},
		{"the data, by another name", "GET", "/data", []string{cookie, key, "Host: evil.example:9000"}, 421},
		{"a preflight", "OPTIONS", "/data", []string{cookie, key, "Origin: http://evil.example"}, 405},
		{"a change", "POST", "/data", []string{cookie, key}, 405},
		{"too long a token", "GET", "/data?since=" + strings.Repeat("1", 101), []string{cookie, key}, 400},
		{"an endpoint that is away", "GET", "/data?since=error", []string{cookie, key}, 502},
	} {
		w := ask(s, c.method, c.path, c.fields...)
		assert.Equal(t, w.Code, c.status, "%s", c.what)
		for name, value := range map[string]string{
			"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
			"Cross-Origin-Resource-Policy": "same-origin", "Access-Control-Allow-Origin": "",
		} {
			assert.Equal(t, w.Header().Get(name), value, "%s: %s", c.what, name)
		}
		policy := w.Header().Get("Content-Security-Policy")
		assert.ErrorIf(t, !strings.HasPrefix(policy, "default-src 'none'; script-src 'sha256-") ||
			!strings.Contains(policy, "; frame-ancestors 'none'; ") || strings.Contains(policy, "unsafe"), "%s: %s", c.what, policy)
		if strings.HasPrefix(c.path, "/data") && c.status != 405 && c.status != 421 {
			assert.Equal(t, w.Header().Get("Content-Type"), "application/json", "%s: the type", c.what)
		}
	}
	assert.Equal(t, ask(s, http.MethodGet, "/data?since=a.1.2", cookie, key).Body.String(), `{"since":"a.1.2"}`, "the answer")
	assert.Equal(t, ask(s, http.MethodGet, "/data?since=error", cookie, key).Body.String(), `{"error":"no Caddy \u003canswers\u003e"}`+"\n", "an error")
}

// TestServer_port80 answers to the host that browsers name where the port is that of http.
func TestServer_port80(t *testing.T) {
	t.Parallel()
	for host, statuses := range map[string]map[string]int{
		"127.0.0.1:80": {"127.0.0.1": 403, "127.0.0.1:80": 403, "localhost": 421, "": 421}, "[::1]:80": {"[::1]": 403},
		"127.0.0.1:8080": {"127.0.0.1": 421, "127.0.0.1:80": 421},
	} {
		for name, status := range statuses {
			w := ask(New(host, "", "", nil), http.MethodGet, "/", "Host: "+name)
			assert.Equal(t, w.Code, status, "the page of %s by %s", host, name)
		}
	}
}

// TestDocument has the whole page in one piece, and its flags escaped.
func TestDocument(t *testing.T) {
	t.Parallel()
	d := testServer().document
	assert.ErrorIf(t, !strings.Contains(d.text, `data-flags=" --address &#39;&#34;&lt;b&gt;&#39;"`), "the flags are not escaped")
	assert.ErrorIf(t, strings.Contains(d.text, "{{"), "a part is missing")
	scripts, ends := strings.Count(d.text, "<script>"), strings.Count(strings.ToLower(d.text), "</script")
	assert.ErrorIf(t, scripts != 5 || ends != 5 || strings.Count(d.policy, "'sha256-") != 6, "%d scripts, %d ends, %s", scripts, ends, d.policy)
	for _, word := range []string{"http:", "https:", "src=", "href=", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("} {
		assert.ErrorIf(t, strings.Contains(strings.ReplaceAll(d.text, "http://www.w3.org/2000/svg", ""), word), "the page has %q", word)
	}
}
