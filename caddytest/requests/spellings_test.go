package requests

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// spelled are requests of which a server reads one value: their targets and header lines.
type spelled struct{ target, header string }

// spellings makes so many requests by a function of their number.
func spellings(n int, spell func(i int) spelled) (all []spelled) {
	for i := range n {
		all = append(all, spell(i))
	}
	return all
}

// inCases writes a word with the letters in upper case whose bits are set.
func inCases(word string, bits int) string {
	letters := []byte(word)
	for i := range letters {
		if bits>>i&1 == 1 {
			letters[i] -= 'a' - 'A'
		}
	}
	return string(letters)
}

// TestSpellings has one client send one value in many spellings, each of which a real server takes for that value. At most
// the limit of 2 passes. What no more than one of the usual spellings tells is that the limit was off, or that each spelling
// had a quota of its own.
func TestSpellings(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options string
		sent    []spelled
	}{
		"the scheme's case (Express, passport)": {"key {header.Authorization}\non_empty_key reject", spellings(40, func(i int) spelled {
			return spelled{"/", "Authorization: " + inCases("bearer", i) + " abc"}
		})},
		"tokens (Rails)": {"key {header.Authorization}\non_empty_key reject", []spelled{
			{"/", "Authorization: Bearer abc"}, {"/", "Authorization: Token abc"}, {"/", `Authorization: Bearer "abc"`},
			{"/", "Authorization: Bearer token=abc"}, {"/", "Authorization: Bearer abc;1"}, {"/", "Authorization: Bearer abc,3"},
		}},
		"Basic (Flask-HTTPAuth)": {"key {header.Authorization}\non_empty_key reject", []spelled{
			{"/", "Authorization: Basic YWxpY2U6cHc="}, {"/", "Authorization: Basic YWxpY2U6cHd="}, {"/", "Authorization: Basic YWxpY2U6cHe="},
			{"/", "Authorization: Basic YWxp!Y2U6cHc="}, {"/", "Authorization: Basic YWxpY2U6cHc=x"},
		}},
		"a cookie, percent-encoded (Express)": {"key {cookie.session}\non_empty_key skip", spellings(40, func(i int) spelled {
			encoded := ""
			for j := range 6 {
				if letter := "abcdef"[j]; i>>j&1 == 1 {
					encoded += fmt.Sprintf("%%%02x", letter)
				} else {
					encoded += string(letter)
				}
			}
			return spelled{"/", "Cookie: session=" + encoded}
		})},
		"a cookie that Go drops (Tornado)": {"key {cookie.session}\non_empty_key skip", spellings(20, func(int) spelled {
			return spelled{"/", `Cookie: session="a\bc"`}
		})},
		"a parameter that Go drops (Rack)": {"key {query.token}\non_empty_key skip", spellings(20, func(int) spelled {
			return spelled{"/?token=abc;", "X-A: b"}
		})},
		"a path (Rails)": {"key {client_ip}:{path}", append(spellings(20, func(i int) spelled {
			return spelled{fmt.Sprintf("/login.%d", i), "X-A: b"}
		}), spellings(5, func(i int) spelled { return spelled{"/login" + strings.Repeat("/", i), "X-A: b"} })...)},
		"a host (Express)": {"key {client_ip}:{host}", spellings(16, func(i int) spelled {
			return spelled{"/", "Host: " + inCases("ap", i&3) + "p.ex"}
		})},
		"a header with a blank of Latin-1 (Tornado)": {"key {header.X-Api-Key}\non_empty_key reject", spellings(10, func(i int) spelled {
			return spelled{"/", "X-Api-Key: abc" + strings.Repeat("\xa0", i)}
		})},
		"a token in another place (passport)": {"key {credential}\non_empty_key reject", []spelled{
			{"/", "Authorization: Bearer abc"}, {"/?access_token=abc", "X-A: b"}, {"/", "X-Api-Key: ABC"}, {"/?api_key=abc", "X-A: b"},
		}},
		"a matcher of paths (Express, Tomcat)": {"key {client_ip}\nmatch path /login", []spelled{
			{"/login", "X-A: b"}, {"/login/", "X-A: b"}, {"/Login//", "X-A: b"}, {"//login", "X-A: b"}, {"/login;x", "X-A: b"}, {"/;x/login", "X-A: b"},
			{"/index.php/login", "X-A: b"}, {"/x/..;/login", "X-A: b"},
		}},
		"a matcher of scripts (PHP)": {"key {client_ip}\nmatch path /wp-login.php", []spelled{
			{"/wp-login.php", "X-A: b"}, {"/wp-login.php/", "X-A: b"}, {"/wp-login.php/x", "X-A: b"}, {"//wp-login.php", "X-A: b"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n := caddytest.InProcess(t, "redis_ratelimit {\nname one\nlimit 2\nwindow 1h\n"+test.options+"\n}\nrespond ok\n")
			passed := 0
			for _, s := range test.sent {
				host := "Host: app.ex\r\n"
				if strings.HasPrefix(s.header, "Host: ") {
					host = ""
				}
				status, _ := raw(t, n, "GET "+s.target+" HTTP/1.1\r\n"+host+s.header+"\r\nConnection: close\r\n\r\n")
				if status == http.StatusOK {
					passed++
				}
				assert.ErrorIf(t, status != http.StatusOK && status != http.StatusTooManyRequests && status != http.StatusBadRequest, "%v: status %d", s, status)
			}
			assert.ErrorIf(t, passed > 2, "%d of %d passed a limit of 2", passed, len(test.sent))
		})
	}
}

// TestSpellings_commands names a key as a client sends it.
func TestSpellings_commands(t *testing.T) {
	n := caddytest.InProcess(t, "redis_ratelimit {header.Authorization} 2 1h {\nname api\n}\nrespond ok\n")
	n.Get(t, "/", "Authorization: Bearer AbC").Want(t, http.StatusOK, "ok")
	n.Ratelimit(t, "state", "--policy", "api", "--key", "Bearer AbC").Want(t, 0, "key          abc\n", "remaining    1\n", "Hint: this key counts as abc\n")
	n.Ratelimit(t, "reset", "--policy", "api", "--key", "token abc").Want(t, 0, "1 quota reset\n")
	for _, sent := range []string{"bearer abc", "ABC"} {
		n.Get(t, "/", "Authorization: "+sent).Want(t, http.StatusOK, "ok")
	}
	n.Get(t, "/", "Authorization: abc").Want(t, http.StatusTooManyRequests, caddytest.Any)
}
