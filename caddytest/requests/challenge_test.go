package requests

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// navigation are headers of a browser where a person goes.
const navigation = "Accept: text/html"

// challenged is a site with a limit of one request, and two passes of two.
const challenged = `redis_ratelimit {
	name site
	limit 1
	window 24h
	challenge 2 2
}
header Content-Disposition attachment
header Refresh "0;url=/elsewhere"
header Link "</style.css>;rel=preload"
header >X-Pass {http.redis_ratelimit.pass}` + caddytest.ShowDecision

// TestChallenge goes the whole way on each store, and on a Cluster.
func TestChallenge(t *testing.T) {
	t.Parallel()
	options := caddytest.Stores(t)
	options["cluster"] = caddytest.OnCluster(t)
	for name, option := range options {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := caddytest.Start(t, caddytest.Config(option, challenged+"\nlog"))
			v := &visitor{Node: n}
			a := open(t, v, "/a/b?x=%41", 0)
			a.Want(t, http.StatusOK, "allowed *")
			assert.Retry(t, "the secret is known", func() (again bool, seen any) {
				a = open(t, v, "/a/b?x=%41", 0)
				return caddytest.WaitingLink(a) == "", a
			})
			a.Want(t, http.StatusTooManyRequests, caddytest.Any, "Retry-After: *", "X-Ratelimit-Remaining: 0", "Cache-Control: no-store", "Content-Type: text/html; charset=utf-8", "Content-Length: "+strconv.Itoa(len(a.Body)))
			assert.ErrorIf(t, a.Header.Get("Refresh")+a.Header.Get("Link")+a.Header.Get("Content-Disposition") != "", "the page has headers of another: %v", a)
			a = open(t, v, "/a/b?x=%41", 1)
			a.Want(t, http.StatusOK, "allowed *", "X-Ratelimit-Limit: 2", "X-Ratelimit-Remaining: 1")
			first := a.Header.Get("X-Pass")
			checkStateOfPass(t, n, first)
			n.Get(t, "/", "Accept: */*").Want(t, http.StatusTooManyRequests, "denied *") // without the cookie
			load := func(method string, headers ...string) caddytest.Response {
				a, err := v.Load(method, n.URL+"/", headers...)
				assert.Must(t, err)
				return a
			}
			load(http.MethodPost).Want(t, http.StatusOK, "allowed *") // subresources and forms carry the pass
			load(http.MethodPost).Want(t, http.StatusTooManyRequests, "denied *")
			a = open(t, v, "/", 1)
			assert.ErrorIf(t, a.Status != http.StatusOK || a.Header.Get("X-Pass") == first, "behind pass %s: %v", first, a)
			open(t, v, "/", 0).Want(t, http.StatusOK, "allowed *")
			a = open(t, v, "/", 1)
			assert.ErrorIf(t, a.Status != http.StatusTooManyRequests, "both passes and the limit are used up: %v", a)
			reset := n.Ratelimit(t, "reset", "--policy", "site", "--key", "127.0.0.1%#"+first)
			reset.Want(t, 0, "1 quota reset")
			n.Ratelimit(t, "reset", "--policy", "site", "--key", "127.0.0.1").Want(t, 0, "2 quotas reset")
			n.Get(t, "/").Want(t, http.StatusOK, "allowed *")
		})
	}
}

func checkStateOfPass(t *testing.T, n *caddytest.Node, pass string) {
	t.Helper()
	n.Ratelimit(t, "state", "--policy", "site", "--key", "127.0.0.1").Want(t, 0, "pass 127.0.0.1%#"+pass, "1/2")
	n.Ratelimit(t, "state", "--policy", "site", "--key", "127.0.0.1%#"+pass).Want(t, 0, "limit", "2")
	n.Ratelimit(t, "policies").Want(t, 0, "  challenge    2 passes of 2\n")
	n.Ratelimit(t, "explain", "--client-ip", "127.0.0.1", "--url", n.URL+"/").Want(t, 4, "a browser that navigates there gets a page that waits")
	n.Ratelimit(t, "explain", "--client-ip", "127.0.0.1", "--url", n.URL+"/?rl-pass=x").Want(t, 0, "sent on")
	assert.Retry(t, "the log has the pass", func() (again bool, seen any) {
		lines := n.Log.String()
		return !strings.Contains(lines, `"ratelimit_pass":"`+pass+`"`) || !strings.Contains(lines, `"ratelimit_challenge":"passed"`), "it has not"
	})
	n.CheckMetric(t, `challenges_total{outcome="passed"}`, 1)
}

type visitor = caddytest.Visitor

// open opens a path with a visitor, who waits at most so many times.
func open(t *testing.T, v *visitor, path string, waits int) caddytest.Response {
	t.Helper()
	a, err := v.Open(path, waits)
	assert.Must(t, err)
	return a
}

// TestChallenge_no_page has requests that no person sees, and denials that no wait ends, get the plain denial.
func TestChallenge_no_page(t *testing.T) {
	n := caddytest.InProcess(t, `redis_ratelimit /heavy {
		name heavy
		limit 1
		window 24h
		weight {query.weight} 1
		challenge
	}
	redis_ratelimit /none {
		name none
		limit {query.none} 1
		window 24h
		challenge
	}
	`+challenged)
	n.Get(t, "/")
	for path, reason := range map[string]string{"/heavy?weight=2": "limit", "/none?none=0": "limit"} {
		a := n.Get(t, path, navigation)
		assert.ErrorIf(t, a.Status != http.StatusTooManyRequests || caddytest.WaitingLink(a) != "", "%s got the page, in spite of %s: %v", path, reason, a)
	}
	for _, headers := range [][]string{
		{}, {"Accept: */*"}, {"Accept: image/avif,text/html"}, {navigation, "Range: bytes=0-"}, {navigation, "X-Requested-With: XMLHttpRequest"},
		{navigation, "Sec-Purpose: prefetch;prerender"}, {navigation, "Purpose: Prefetch"}, {navigation, "X-Moz: prefetch"},
		{navigation, "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty"}, {navigation, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"}, {navigation, "Sec-Fetch-Mode: navigate"},
	} {
		a := n.Get(t, "/", headers...)
		assert.ErrorIf(t, a.Header.Get("Set-Cookie") != "" || caddytest.WaitingLink(a) != "" || a.Status == http.StatusFound, "%q got the page: %v", headers, a)
	}
	for _, method := range []string{http.MethodPost, http.MethodHead, http.MethodPut, http.MethodOptions} {
		a := n.Send(t, method, n.URL, "", navigation)
		assert.ErrorIf(t, a.Status != http.StatusTooManyRequests || a.Header.Get("Set-Cookie") != "", "%s got the page: %v", method, a)
	}
	for _, destination := range []string{"document", "empty"} {
		a := n.Get(t, "/", navigation, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: "+destination)
		assert.ErrorIf(t, caddytest.WaitingLink(a) == "", "%s got no page: %v", destination, a)
	}
}

// TestChallenge_others has overrides, other policies and the usage page.
func TestChallenge_others(t *testing.T) {
	n := caddytest.InProcess(t, `redis_ratelimit /both* {
		policy site {
			limit 1
			window 24h
			challenge
		}
		policy day {
			limit 3
			window 24h
		}
		usage /both/usage
		answer problem
	}
	redis_ratelimit /one {
		name one
		limit 1
		window 24h
		challenge 1
	}
	redis_ratelimit /dry {
		name dry
		limit 1
		window 24h
		challenge
		dry_run
	}`+caddytest.ShowDecision)
	n.GetTimes(t, 3, "/dry", navigation)
	n.Get(t, "/dry?rl-pass=x", navigation).Want(t, http.StatusOK, "allowed ") // no challenge, no ticket
	v := &visitor{Node: n}
	open(t, v, "/one", 0).Want(t, http.StatusOK, "allowed *")
	open(t, v, "/one", 1).Want(t, http.StatusOK, "allowed *")
	open(t, v, "/one", 1).Want(t, http.StatusTooManyRequests, "denied *") // there is no other pass
	v.Cookies = nil
	n.Override(t, http.StatusBadRequest, `{"policy":"site","key":"127.0.0.1%#3","block":true}`)
	open(t, v, "/both", 0).Want(t, http.StatusOK, "allowed *")
	open(t, v, "/both", 1).Want(t, http.StatusOK, "allowed *")
	a, err := v.Load(http.MethodGet, n.URL+"/both/usage")
	assert.Must(t, err)
	assert.ErrorIf(t, strings.Count(a.Body, `"remaining":0`) != 1 && !strings.Contains(a.Body, `"remaining":1`), "usage is %v", a)
	n.Override(t, http.StatusOK, `{"policy":"site","key":"127.0.0.1","block":true,"for":"1h"}`)
	a = open(t, v, "/both", 0)
	assert.ErrorIf(t, caddytest.WaitingLink(a) != "" || a.Status != http.StatusTooManyRequests, "a blocked client got %v", a)
	n.Override(t, http.StatusOK, `{"policy":"site","key":"127.0.0.1","limit":5}`)
	a, err = v.Load(http.MethodGet, n.URL+"/both/usage")
	assert.Must(t, err)
	assert.ErrorIf(t, !strings.Contains(a.Body, `"limit":5`), "under an override usage is %v", a)
	n.Override(t, http.StatusOK, `{"policy":"site","key":"127.0.0.1","remove":true}`)
	open(t, v, "/both", 1) // the third
	v.Cookies = nil
	a = open(t, v, "/both", 0)
	assert.ErrorIf(t, caddytest.WaitingLink(a) != "" || !strings.Contains(a.Body, "violated-policies"), "the day's limit is used up too: %v", a)
}

// TestChallenge_no_cookies ends the loop of a browser that keeps none.
func TestChallenge_no_cookies(t *testing.T) {
	n := caddytest.InProcess(t, challenged)
	v := &visitor{Node: n, Refuses: true}
	open(t, v, "/", 0)
	a := open(t, v, "/p?q=1", 3)
	assert.ErrorIf(t, v.Waits != 1 || a.Status != http.StatusTooManyRequests || !strings.Contains(a.Body, `<a href="./p?q=1">Allow cookies`), "after %d waits: %v", v.Waits, a)
}

// TestChallenge_hostile brings tickets and targets that would leave the host, split a header or loop.
func TestChallenge_hostile(t *testing.T) {
	n := caddytest.InProcess(t, challenged)
	n.Get(t, "/")
	for target, want := range map[string]string{
		"/?rl-pass=x": "./", "//evil.example/?rl-pass=": "./", "//evil.example?a=b&rl-pass=x": "./evil.example?a=b", "/a/..?rl-pass=x": "./..",
		"/%0d%0aSet-Cookie:x?rl-pass=x": "./%0d%0aSet-Cookie:x", "/a/%2f%2fevil?b=%0d%0a&rl-pass=x": "./%2f%2fevil?b=%0d%0a", "/javascript:x?rl-pass=x": "./javascript:x",
		"/%5cevil.example?rl-pass=x": "./%5cevil.example", "/?a=<b>\"'&rl-pass=" + strings.Repeat("A", 32): "./?a=<b>\"'", "/?&rl-pass=x": "./", "/?rl-pass=1&rl-pass=2": "./?rl-pass=1",
	} {
		for _, version := range []string{"1.0", "1.1"} {
			for _, method := range []string{"GET", "HEAD"} {
				status, header := raw(t, n, method+" "+target+" HTTP/"+version+"\r\nHost: a\r\nConnection: close\r\nCookie: rl-pass=x; rl-pass=y; rl-pass=z; rl-pass=; rl-wait=\x80\r\n\r\n")
				location := header.Get("Location")
				at, err := (&url.URL{Scheme: "http", Host: "a", Path: "/x"}).Parse(location)
				assert.ErrorIf(t, status != http.StatusFound || location != want || err != nil || at.Host != "a" || len(header["Set-Cookie"]) > 0, "%s %s: %d %v, want %s", method, target, status, header, want)
			}
		}
	}
	for _, target := range []string{"/?rl-pass=x&y", "/?xrl-pass=x", "/?y=rl-pass=x", "/rl-pass=x", "/?RL-PASS=x"} { // no tickets
		a := n.Get(t, target)
		assert.ErrorIf(t, a.Status != http.StatusTooManyRequests, "%s: %v", target, a)
	}
	a := n.Get(t, "/?a=%22%3E%3Cscript%3E&\"><script>", navigation, "Accept-Language: \"><script>, de")
	assert.ErrorIf(t, strings.Contains(a.Body, "<script") || !strings.HasPrefix(a.Body, "<!doctype html><html lang=de>"), "the page is %q", a.Body)
	for header, lang := range map[string]string{"de-AT,en": "de", "ES ;q=1": "es", "fr": "fr", "tlh,fr;q=0.1,de": "fr", "tlh": "en", "frx": "en", "": "en", strings.Repeat("d", 5000): "en"} {
		a := n.Get(t, "/", navigation, "Accept-Language: "+header)
		assert.ErrorIf(t, !strings.Contains(a.Body, "<html lang="+lang+">"), "%q: %v", header, a)
	}
}

// raw sends bytes and returns the response's status and header.
func raw(t *testing.T, n *caddytest.Node, request string) (int, http.Header) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(n.URL, "http://"))
	assert.Must(t, err)
	defer conn.Close() //nolint:errcheck // the response was read
	_, err = io.WriteString(conn, request)
	assert.Must(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	assert.Must(t, err)
	_ = response.Body.Close() // only the header is wanted
	return response.StatusCode, response.Header
}

// TestChallenge_cookies has cookies of many, the first valid one of four of a name is taken, and TLS names of their own.
func TestChallenge_cookies(t *testing.T) {
	n := caddytest.InProcess(t, challenged)
	v := &visitor{Node: n}
	open(t, v, "/", 0)
	open(t, v, "/", 1).Want(t, http.StatusOK, "allowed *")
	pass := "rl-pass=" + v.Cookies["rl-pass"]
	n.Get(t, "/", "Cookie: a=b;rl-pass=x; rl-pass=y;rl-pass;rl-pass=z; "+pass).Want(t, http.StatusOK, "allowed *")
	n.Get(t, "/", "Cookie: rl-pass=x; rl-pass=y; rl-pass=z; rl-pass=; "+pass).Want(t, http.StatusTooManyRequests, "denied *")
	n.Get(t, "/", "Cookie: rl-pass=x"+v.Cookies["rl-pass"][1:]).Want(t, http.StatusTooManyRequests, "denied *")
}

// TestChallenge_protocols speaks HTTP/2 and HTTP/3.
func TestChallenge_protocols(t *testing.T) {
	t.Parallel()
	site := startVersions(t, "", challenged).url("HTTP/3.0")
	clients := speakers(t)
	ask(t, clients["HTTP/2.0"], site)
	for _, version := range []string{"HTTP/2.0", "HTTP/3.0"} {
		for _, query := range []string{"", "?rl-pass=x"} {
			r := caddytest.GetRequest(t.Context(), t, site+"/"+query)
			r.Header.Set("Accept", "text/html")
			response, err := clients[version].RoundTrip(r)
			assert.Must(t, err)
			_ = response.Body.Close() // only the header is wanted
			cookie := response.Header.Get("Set-Cookie")
			want := map[string]int{"": http.StatusTooManyRequests, "?rl-pass=x": http.StatusFound}[query]
			assert.ErrorIf(t, response.StatusCode != want || query == "" != (cookie == "__Host-rl-wait=1; Path=/; Max-Age=3600; HttpOnly; Secure; SameSite=Lax"), "%s%s: %d, %q", version, query, response.StatusCode, cookie)
		}
	}
}

// TestChallenge_no_secret refuses plainly where Redis holds no secret that can be read, and logs why.
func TestChallenge_no_secret(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	const key = "rl:{%!challenge}:secret"
	assert.Must(t, client.Do(t.Context(), "ACL", "SETUSER", "default", "resetkeys", "~rl:{1*", "~rl:{%!override*").Err())
	n := caddytest.Start(t, caddytest.Config(caddytest.PatientRedis(server), challenged))
	n.Get(t, "/").Want(t, http.StatusOK, "allowed redis")
	assert.Retry(t, "the log says why", func() (again bool, seen any) {
		return !n.Log.Has("the secret of challenges cannot be read"), "it does not"
	})
	assert.Must(t, client.Do(t.Context(), "ACL", "SETUSER", "default", "allkeys").Err())
	for _, garbage := range []string{"a list", "", "garbage", strings.Repeat("g", 64), strings.Repeat("0", 66)} {
		if assert.Must(t, client.Set(t.Context(), key, garbage, 0).Err()); garbage == "a list" {
			assert.Must(t, client.Del(t.Context(), key).Err())
			assert.Must(t, client.RPush(t.Context(), key, garbage).Err())
		}
		a := n.Get(t, "/", navigation)
		assert.ErrorIf(t, a.Status != http.StatusTooManyRequests || caddytest.WaitingLink(a) != "" || a.Header.Get("Set-Cookie") != "", "with %q: %v", garbage, a)
	}
	a := n.Get(t, "/?rl-pass=x", navigation)
	assert.ErrorIf(t, a.Status != http.StatusFound || a.Header.Get("Location") != "./", "a ticket: %v", a)
	assert.Must(t, client.Del(t.Context(), key).Err())
	assert.Retry(t, "the page appears", func() (again bool, seen any) { return caddytest.WaitingLink(n.Get(t, "/", navigation)) == "", "no" })
	text, err := client.Get(t.Context(), key).Result()
	assert.ErrorIf(t, err != nil || len(text) != 64, "the secret is %q, %v", text, err)
}
