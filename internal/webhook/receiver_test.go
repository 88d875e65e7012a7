package webhook

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestSecret_sign has the numbers that libraries of Standard Webhooks test with; openssl dgst -sha256 -mac HMAC gives the
// same.
func TestSecret_sign(t *testing.T) {
	s := assert.NoError(ParseSecret(caddytest.InboxSecret))(t)
	got := s.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	assert.Equal(t, got, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", "the signature")
}

// TestSecret_hashKey has the hash that openssl gives for key:203.0.113.7.
func TestSecret_hashKey(t *testing.T) {
	s := assert.NoError(ParseSecret(caddytest.InboxSecret))(t)
	assert.Equal(t, s.hashKey("203.0.113.7"), "83a0ed3c3f172ff399cdd5db7f047c45cf9748ac4044246489c0f437e9c4410c", "the hash")
}

func TestParseSecret(t *testing.T) {
	encode := func(n int) string { return "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, n)) }
	for text, good := range map[string]bool{
		caddytest.InboxSecret: true, caddytest.InboxSecret + "\n": true, encode(24): true, encode(25): true, strings.TrimRight(encode(25), "="): true, encode(64): true,
		"": false, "hunter2": false, encode(23): false, encode(65): false, "whsec_": false, caddytest.InboxSecret[6:]: false, "whsec_" + strings.Repeat("!", 32): false,
	} {
		_, err := ParseSecret(text)
		assert.ErrorIf(t, (err == nil) != good, "%q: %v", text, err)
		assert.ErrorIf(t, err != nil && text != "" && text != "whsec_" && strings.Contains(err.Error(), text), "the error shows the secret: %v", err)
	}
}

func TestParseURL(t *testing.T) {
	for text, good := range map[string]bool{
		"https://alerts.example.com/a?b=c": true, "http://127.0.0.1:9000": true, "http://[::1]:9000/": true, "HTTPS://user:pass@host/": true,
		"": false, "alerts.example.com": false, "ftp://host/": false, "http://": false, "http:///path": false, "https://host:0/": false, "https://host:65536/": false,
		"https://host:port/": false, "unix:///socket": false, "http://a b/": false, "javascript:alert(1)": false, "http://:80/": false, "https://ho\x00st/": false,
	} {
		_, err := ParseURL(text)
		assert.ErrorIf(t, (err == nil) != good, "%q: %v", text, err)
	}
}

// TestReceiver_errors has answers that take no event, and none of their errors shows the URL.
func TestReceiver_errors(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/broken":
			w.Header().Set("Location", "http://"+r.Host+"/%zz"+r.URL.String())
			w.WriteHeader(http.StatusFound)
		case "/login":
			if user, password, _ := r.BasicAuth(); user != "user" || password != "hidden" {
				w.WriteHeader(http.StatusUnauthorized)
			}
		case "/busy":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/garbage":
			connection, _, _ := http.NewResponseController(w).Hijack()
			_, _ = connection.Write([]byte(strings.Repeat("x", 10_000) + "\r\n\r\n"))
			_ = connection.Close()
		case "/header":
			w.Header().Set("X-Long", strings.Repeat("x", 100_000))
		case "/endless":
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}
	}))
	defer server.Close()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for target, want := range map[string]string{
		server.URL + "/redirect?token=hidden": "the answer is a redirect, status 307, which is not followed", server.URL + "/broken?token=hidden": "status 302", strings.Replace(server.URL, "://", "://user:hidden@", 1) + "/login": "", server.URL + "/login": "status 401",
		server.URL + "/busy?token=hidden":    "the answer has status 503",
		server.URL + "/garbage?token=hidden": "malformed HTTP", server.URL + "/header?token=hidden": "exceeded", closed.URL + "/?token=hidden": "refused",
		server.URL + "/endless": "", server.URL + "/good": "",
	} {
		u := assert.NoError(url.Parse(target))(t)
		r := newReceiver(u, Secret{})
		err := r.send(t.Context(), "msg_A", []byte("{}"))
		r.close()
		if want == "" {
			assert.ErrorIf(t, err != nil, "%s: %v", target, err)
			continue
		}
		assert.FatalIf(t, err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hidden") || len(err.Error()) > 300, "%s: %v", target, err)
		answer := refusal{}
		assert.ErrorIf(t, errors.As(err, &answer) && answer.status == http.StatusServiceUnavailable && answer.after != 7*time.Second, "it asks for %v", answer.after)
	}
	assert.Equal(t, elsewhere.Load(), 0, "the number of requests that followed a redirect")
}
