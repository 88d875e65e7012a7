package requests

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// signer makes tokens as another node with the same hash_keys would, by the bytes that the design names.
type signer string

// The kinds of tokens.
const (
	ticketToken, passToken, fileToken, provenTicket, provenPass = 1, 2, 3, 4, 5
)

// token returns the text of a token for 127.0.0.1, whose time is so long from now.
func (s signer) token(kind byte, number uint16, from time.Duration) string {
	derived := hmac.New(sha256.New, []byte(s))
	_, _ = derived.Write([]byte("redis_ratelimit challenge 1"))
	signed := binary.BigEndian.AppendUint64(nil, uint64(time.Now().Add(from).Unix()))
	signed[0], signed[1], signed[2] = kind, byte(number>>8), byte(number)
	half := 0
	if kind == fileToken { // which has the second half of its ticket's MAC
		signed[0], half = provenTicket, 16
	}
	mac := hmac.New(sha256.New, derived.Sum(nil))
	_, _ = mac.Write(signed)
	_, _ = mac.Write([]byte{4, 127, 0, 0, 0, 0, 0})
	signed[0] = kind
	return base64.RawURLEncoding.EncodeToString(append(signed, mac.Sum(nil)[half:half+16]...))
}

// hidden is the secret of the nodes of these tests.
const hidden = signer("secret")

// hiding returns the global option of a Redis with that secret. Without Redis a process has a secret of its own.
func hiding(t *testing.T) string {
	t.Helper()
	return strings.Replace(caddytest.SharedRedis(t), "timeout", "hash_keys secret\ntimeout", 1)
}

// crowded is a site of three places, of which strangers have one.
const crowded = `redis_ratelimit {
	name backend
	key everyone
	max_concurrent 3
	reserve 2
	challenge
	status 503
}
reverse_proxy `

// TestChallengeReserve has visitors of each kind come to a site whose places for strangers are taken.
func TestChallengeReserve(t *testing.T) {
	t.Parallel()
	options := caddytest.Stores(t)
	options["cluster"] = caddytest.OnCluster(t)
	for name, option := range options {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := caddytest.NewHolder(t)
			n := caddytest.Start(t, caddytest.Config(option, crowded+h.Addr+"\nlog"))
			v := &visitor{Node: n}
			open(t, v, "/quick", 0).Want(t, http.StatusOK, "")
			h.Begin(t, n, "/held")
			a := open(t, v, "/quick?a=%41", 0)
			assert.Retry(t, "the secret is known", func() (again bool, seen any) {
				a = open(t, v, "/quick?a=%41", 0)
				return caddytest.WaitingLink(a) == "", a
			})
			a.Want(t, http.StatusServiceUnavailable, caddytest.Any, "Retry-After: 1", "Cache-Control: no-store", "Content-Type: text/html; charset=utf-8")
			v.Cookies = nil
			open(t, v, "/quick?a=%41", 1).Want(t, http.StatusOK, "")
			assert.ErrorIf(t, v.Cookies["rl-pass"] == "", "no pass: %v", v.Cookies)
			second := h.Begin(t, n, "/held", "Cookie: rl-pass="+v.Cookies["rl-pass"])
			h.Begin(t, n, "/held", "Cookie: rl-pass="+v.Cookies["rl-pass"])
			a = open(t, v, "/quick", 0)
			a.Want(t, http.StatusServiceUnavailable, caddytest.Any)
			assert.ErrorIf(t, caddytest.WaitingLink(a) != "", "a pass for whom all places are taken got the page: %v", a)
			second.Leave()
			h.WaitRunning(t, 2)
			n.CheckMetric(t, `challenges_total{outcome="passed"}`, 1)
			n.CheckMetric(t, `challenges_total{outcome="file"}`, 1)
			assert.ErrorIf(t, n.Metric(t, `reserve_denied_total{policy="backend"}`) < 2, "the metric counts too little")
			n.Ratelimit(t, "policies").Want(t, 0, "opens what is reserved\n")
			n.Ratelimit(t, "explain", "--client-ip", "127.0.0.1", "--url", n.URL+"/").Want(t, 4, "a browser that navigates there gets a page that waits")
		})
	}
}

// TestChallengeReserve_half has those who cannot show that they have waited use half of what is reserved: browsers without
// cookies, those for text, and whatever replays their tickets on two nodes at once.
func TestChallengeReserve_half(t *testing.T) {
	t.Parallel()
	option := hiding(t)
	var seen sync.Map
	upstream := caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r.RequestURI, true)
		w.Header().Set("Cache-Control", "max-age=60")
		_, _ = w.Write([]byte("content"))
	})
	site := func(name string) string {
		return "redis_ratelimit /" + name + ` {
			name ` + name + `
			key everyone
			limit 20
			window 400d
			algorithm sliding_window_log
			reserve 9
			challenge
		}
		`
	}
	text := caddytest.Config(option, site("text")+site("none")+site("replay")+"reverse_proxy "+upstream)
	nodes := []*caddytest.Node{caddytest.Start(t, text), caddytest.Start(t, text)}
	n := nodes[0]
	v := &visitor{Node: n, IsText: true}
	for range 11 {
		open(t, v, "/text?q", 0).Want(t, http.StatusOK, "content")
	}
	a := open(t, v, "/text?q", 2)
	a.Want(t, http.StatusTooManyRequests, caddytest.Any)
	open(t, v, "/text?q", 1).Want(t, http.StatusOK, "content", "Cache-Control: max-age=60, private")
	assert.ErrorIf(t, v.Waits != 3 || v.Cookies["rl-pass"] != "", "%d waits, cookies %v", v.Waits, v.Cookies)
	open(t, v, "/text?q", 1).Want(t, http.StatusOK, "content") // the count of waits stays

	v = &visitor{Node: n, Refuses: true}
	for range 11 {
		open(t, v, "/none?q", 0).Want(t, http.StatusOK, "content")
	}
	a = open(t, v, "/none?q", 1)
	a.Want(t, http.StatusOK, "content", "Cache-Control: max-age=60, private")
	assert.ErrorIf(t, a.Header.Get("Set-Cookie") != "" || v.Waits != 1, "%v after %d waits", a, v.Waits)
	n.CheckMetric(t, `challenges_total{outcome="cookieless"}`, 3)
	for uri := range seen.Range {
		assert.ErrorIf(t, strings.Contains(fmt.Sprint(uri), "rl-pass"), "the backend has seen %v", uri)
	}

	n.GetTimes(t, 11, "/replay")
	n.Get(t, "/replay").Want(t, http.StatusTooManyRequests, caddytest.Any)
	ticket := "/replay?rl-pass=" + hidden.token(provenTicket, 7, -time.Second)
	var passes atomic.Int64
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			cookie := [3]string{"X-None: 1", "Cookie: rl-wait=3", "Cookie: a=b"}[i%3]
			a, err := nodes[i%2].Try(http.MethodGet, nodes[i%2].URL+ticket, "", navigation, cookie)
			if assert.ErrorIf(t, err != nil, "%v", err); a.Status == http.StatusOK {
				passes.Add(1)
			}
		})
	}
	all.Wait()
	assert.ErrorIf(t, passes.Load() != 4, "of 40 replays %d passed; half of 9 is 5, so that 4 may", passes.Load())
	proven := "Cookie: rl-pass=" + hidden.token(provenPass, 7, time.Minute)
	for range 5 {
		n.Get(t, "/replay", proven).Want(t, http.StatusOK, "content")
	}
	n.Get(t, "/replay", proven).Want(t, http.StatusTooManyRequests, caddytest.Any)
}

// TestChallengeReserve_tokens brings passes, tickets and tokens of style sheets that are none: each is a stranger's.
func TestChallengeReserve_tokens(t *testing.T) {
	t.Parallel()
	const foreign = signer("another")
	n := caddytest.Start(t, caddytest.Config(hiding(t), `redis_ratelimit {
				name site
				key everyone
				limit 50
				window 400d
				reserve 49
				challenge
			}`+caddytest.ShowDecision))
	n.Get(t, "/").Want(t, http.StatusOK, "allowed *")
	hour := time.Hour
	for text, cookie := range map[string]string{
		"forged":                      "rl-pass=" + strings.Repeat("A", 32),
		"foreign":                     "rl-pass=" + foreign.token(provenPass, 1, hour),
		"ended":                       "rl-pass=" + hidden.token(provenPass, 1, -time.Second),
		"ended long ago":              "rl-pass=" + hidden.token(provenPass, 1, -4*hour),
		"of a page without a file":    "rl-pass=" + hidden.token(passToken, 1, hour),
		"a ticket as a pass":          "rl-pass=" + hidden.token(provenTicket, 1, hour),
		"a file as a pass":            "rl-pass=" + hidden.token(fileToken, 1, 0),
		"a pass as a file":            "rl-wait=" + hidden.token(provenPass, 1, hour),
		"a file without a ticket":     "rl-wait=" + hidden.token(fileToken, 1, 0),
		"the pass of another network": "rl-pass=" + base64.RawURLEncoding.EncodeToString(make([]byte, 24)),
	} {
		a := n.Get(t, "/", navigation, "Cookie: "+cookie)
		assert.ErrorIf(t, a.Status != http.StatusTooManyRequests || caddytest.WaitingLink(a) == "", "a pass that is %s got in: %v", text, a)
	}
	for text, want := range map[string]struct {
		token, cookie string
		status        int
	}{
		"a file, and a ready ticket":              {hidden.token(provenTicket, 1, 0), "rl-wait=" + hidden.token(fileToken, 9, 0), http.StatusFound},
		"a foreign file":                          {hidden.token(provenTicket, 1, 0), "rl-wait=" + foreign.token(fileToken, 1, 0), http.StatusTooManyRequests},
		"an ended file":                           {hidden.token(provenTicket, 1, 0), "rl-wait=" + hidden.token(fileToken, 1, -hour), http.StatusTooManyRequests},
		"a ticket from an hour ahead":             {hidden.token(provenTicket, 1, hour), "rl-wait=" + hidden.token(fileToken, 1, 0), http.StatusFound},
		"a plain ticket, which opens nothing":     {hidden.token(ticketToken, 1, 0), "rl-wait=1", http.StatusFound},
		"no cookies, two minutes after":           {hidden.token(provenTicket, 1, -2*time.Minute), "", http.StatusFound},
		"a style sheet of another network":        {foreign.token(fileToken, 1, 0), "", http.StatusFound},
		"a style sheet whose page is an hour old": {hidden.token(fileToken, 1, -hour), "", http.StatusFound},
	} {
		a := n.Get(t, "/?rl-pass="+want.token, navigation, "Cookie: "+want.cookie)
		assert.ErrorIf(t, a.Status != want.status, "%s: %v", text, a)
		if text != "a file, and a ready ticket" {
			for _, set := range a.Header["Set-Cookie"] {
				c := assert.NoError(http.ParseSetCookie(set))(t)
				a := n.Get(t, "/", navigation, "Cookie: "+c.Name+"="+c.Value)
				assert.ErrorIf(t, a.Status != http.StatusTooManyRequests, "%s gives %s: %v", text, set, a)
			}
		}
	}
	late := "Cookie: rl-pass=" + hidden.token(provenPass, 1, -2*hour)
	a := n.Send(t, http.MethodPost, n.URL, "comment", late)
	a.Want(t, http.StatusOK, "allowed *") // the form of a page that was opened with the pass
	n.Get(t, "/", late, "Accept: */*", "Sec-Fetch-Mode: no-cors").Want(t, http.StatusOK, "allowed *")
	n.Get(t, "/", late, navigation).Want(t, http.StatusTooManyRequests, caddytest.Any)
}

// TestChallengeReserve_clocks has a browser come to two nodes in turns whose clocks are 2 s apart: after at most two pages it is
// in. Its tickets are made by hand, as no node's clock can be moved.
func TestChallengeReserve_clocks(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config(hiding(t), "redis_ratelimit {\nkey everyone\nlimit 3\nwindow 400d\nreserve 2\nchallenge\n}"+caddytest.ShowDecision))
	file := "Cookie: rl-wait=" + hidden.token(fileToken, 1, 0)
	for _, test := range []struct {
		early  time.Duration
		waits  bool
		status int
		got    string
	}{
		{-time.Second, false, http.StatusFound, "rl-pass"}, {2 * time.Second, true, http.StatusFound, "rl-pass"},
		{time.Minute, false, http.StatusFound, ""},
	} {
		tries := 0.0
		assert.Retry(t, fmt.Sprint("a ticket that is early by ", test.early), func() (again bool, seen any) { // a busy machine takes long too
			tries++
			begin := time.Now()
			a := n.Get(t, "/?rl-pass="+hidden.token(provenTicket, 1, test.early), navigation, file)
			took := time.Since(begin)
			name, _, _ := strings.Cut(a.Header.Get("Set-Cookie"), "=")
			assert.ErrorIf(t, a.Status != test.status || name != test.got || test.waits && took < 900*time.Millisecond,
				"%v early, after %v: %v", test.early, took, a)
			return !test.waits && took > 900*time.Millisecond, took
		})
		if test.got == "" {
			n.CheckMetric(t, `challenges_total{outcome="early"}`, tries)
		}
	}
	begin := time.Now() // page, style sheet and ticket in one go
	v := &visitor{Node: n}
	n.Get(t, "/")
	page := open(t, v, "/", 0)
	_, err := v.Load(http.MethodGet, n.URL+"/"+caddytest.StyleSheet(page))
	assert.Must(t, err)
	a, err := v.Navigate(n.URL + "/" + caddytest.WaitingLink(page))
	assert.Must(t, err)
	second := begin.Truncate(time.Second).Add(time.Second)
	assert.ErrorIf(t, v.Cookies["rl-pass"] == "" || time.Now().Before(second), "a pass at %v, page at %v: %v", time.Now(), begin, a)
}

// TestChallengeReserve_leaves has clients go away while their ticket's second is waited for: nothing is left of them.
func TestChallengeReserve_leaves(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config(hiding(t), "redis_ratelimit {\nkey everyone\nlimit 3\nwindow 400d\nreserve 2\nchallenge\n}"+caddytest.ShowDecision))
	n.Get(t, "/")
	before := n.Goroutines(t)
	var left []*caddytest.HeldRequest
	for range 20 {
		left = append(left, n.Hold(t, "/?rl-pass="+hidden.token(provenTicket, 1, 2*time.Second), navigation))
	}
	for _, r := range left {
		r.Leave()
	}
	assert.Retry(t, "nothing is held", func() (again bool, seen any) {
		held, now := n.Metric(t, "held_requests"), n.Goroutines(t)
		return held != 0 || now > before+2, fmt.Sprint(held, " ", now, " of ", before)
	})
}

// TestChallengeReserve_two_directives has a bound for each address around the places: a pass of the address's page opens no
// reserve, one of the places' page has a quota outside as well.
func TestChallengeReserve_two_directives(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config(hiding(t), `route {
				redis_ratelimit {client_ip} 4 400d { name address; algorithm fixed_window; challenge 2 }
				redis_ratelimit { name places; key everyone; limit 100; window 400d; reserve 98; challenge }
				header >X-Pass {http.redis_ratelimit.pass}
				respond "{http.redis_ratelimit.decision}"
			}`))
	v := &visitor{Node: n}
	open(t, v, "/", 0).Want(t, http.StatusOK, "allowed")
	open(t, v, "/", 0).Want(t, http.StatusOK, "allowed")
	a := open(t, v, "/", 0) // the third: strangers' units are used up
	assert.ErrorIf(t, caddytest.StyleSheet(a) == "", "no page: %v", a)
	a = n.Get(t, "/", navigation, "Cookie: rl-pass="+hidden.token(passToken, 1, time.Hour))
	assert.ErrorIf(t, caddytest.StyleSheet(a) == "", "the pass of an address has opened the places: %v", a)
	open(t, v, "/", 1).Want(t, http.StatusOK, "allowed")
	first := v.Cookies["rl-pass"]
	opened := 1
	for a = open(t, v, "/", 0); a.Status == http.StatusOK; a = open(t, v, "/", 0) {
		opened++
	}
	assert.ErrorIf(t, opened < 3 || opened > 4, "%d of a pass's quota of 4 passed, of which another pass may have had one", opened)
	assert.ErrorIf(t, caddytest.WaitingLink(a) == "" || caddytest.StyleSheet(a) != "", "the address's page: %v", a)
	open(t, v, "/", 1).Want(t, http.StatusOK, "allowed")
	assert.ErrorIf(t, v.Cookies["rl-pass"] == first, "the pass is the first one")
}

// TestChallengeReserve_outer has other handlers around the directive: none of them keeps the page from its style sheet.
func TestChallengeReserve_outer(t *testing.T) {
	t.Parallel()
	const limited = "redis_ratelimit { key everyone; limit 3; window 400d; reserve 2; challenge }\nrespond ok"
	basic := "basic_auth {\nbob $2a$04$ZdZs1NQ4eEe3..irYwiyBeqP0sljyl6ck1RB8mCBUlOrgQ23JTVnW\n}\n"
	for name, site := range map[string]string{
		"deferred policy":   "header >Content-Security-Policy \"default-src 'none'\"\nheader >Cache-Control \"public, max-age=600\"\nheader >Retry-After 900\n" + limited,
		"deletion":          "header {\n-Server\nContent-Security-Policy \"default-src 'none'\"\nCache-Control public\n-Set-Cookie\n}\n" + limited,
		"deferred, encoded": "header >Content-Security-Policy \"default-src 'none'\"\nencode {\ngzip\nminimum_length 1\n}\n" + limited,
		"outer limiter":     "header >Content-Security-Policy \"default-src 'none'\"\nroute {\nredis_ratelimit { name outer; limit 100; window 400d; count_if status 2xx 5xx }\n" + limited + "\n}",
		"rewrite":           "rewrite * /other?{query}&z=1\n" + limited,
		"handle_path":       "handle_path /dir/* {\n" + limited + "\n}",
		"basic_auth":        "route {\n" + basic + limited + "\n}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := caddytest.Start(t, caddytest.Config("", site))
			v := &visitor{Node: n}
			login := "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("bob:hiccup"))
			at := assert.NoError(url.Parse(n.URL + "/dir/page?q=1"))(t)
			load := func(at *url.URL, accept string) caddytest.Response {
				return assert.NoError(v.Load(http.MethodGet, at.String(), login, accept))(t)
			}
			load(at, navigation).Want(t, http.StatusOK, "ok")
			page := load(at, navigation)
			policy := page.Header.Get("Content-Security-Policy")
			assert.ErrorIf(t, page.Status != http.StatusTooManyRequests || !strings.Contains(policy, "style-src 'self';") || page.Header.Get("Cache-Control") != "no-store" || page.Header.Get("Retry-After") != "1",
				"the page is %v", page)
			sheet := load(assert.NoError(at.Parse(caddytest.StyleSheet(page)))(t), "Accept: text/css,*/*;q=0.1")
			assert.ErrorIf(t, sheet.Status != http.StatusOK || sheet.Header.Get("Cache-Control") != "no-store" || !strings.HasPrefix(sheet.Header.Get("Content-Type"), "text/css"), "the style sheet is %v", sheet)
			<-time.After(time.Second)
			ticket := assert.NoError(at.Parse(caddytest.WaitingLink(page)))(t)
			sent := load(ticket, navigation)
			sent.Want(t, http.StatusFound, "", "Location: ./page?q=1")
			load(assert.NoError(ticket.Parse(sent.Header.Get("Location")))(t), navigation).Want(t, http.StatusOK, "ok")
		})
	}
}

// TestChallengeReserve_page has a page of the operator's, with both kinds of challenges, and files that are none.
func TestChallengeReserve_page(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "wait.html")
	write := func(text string) { assert.Must(t, os.WriteFile(file, []byte(text), 0o600)) }
	const text = "<!doctype html>\n<link rel=\"stylesheet\" href=\"{challenge.stylesheet}\"><meta http-equiv=\"refresh\" content=\"1;url={challenge.link}\"><p>Acme"
	write(text)
	for name, options := range map[string]string{"reserve": "reserve 2\nchallenge", "passes": "challenge 2"} {
		t.Run(name, func(t *testing.T) {
			n := caddytest.Start(t, caddytest.Config("", "redis_ratelimit {\nkey {client_ip}\nlimit 3\nwindow 400d\n"+options+" {\npage "+file+"\n}\n}\nrespond ok"))
			v := &visitor{Node: n}
			n.GetTimes(t, 3, "/")
			a := open(t, v, `/a?"><script>=1`, 0)
			a.Want(t, http.StatusTooManyRequests, caddytest.Any, "Content-Type: text/html; charset=utf-8", "Content-Security-Policy: default-src 'self';style-src 'self' 'unsafe-inline';img-src 'self' data:;*")
			assert.ErrorIf(t, !strings.HasSuffix(a.Body, "<p>Acme") || strings.Contains(a.Body, "<script") || strings.Contains(a.Body, "{challenge"), "the page is %s", a.Body)
			open(t, v, "/", 1).Want(t, http.StatusOK, "ok")
			n.Ratelimit(t, "policies").Want(t, 0, "  "+file+"\n")
		})
	}
	for wrong, want := range map[string]string{
		"": "lacks {challenge.link}", text + "{challenge.link}": "has {challenge.link} 2 times", strings.Repeat("x", 70_000): "has 65537 bytes; use at most 65536",
	} {
		write(wrong)
		path := caddytest.WriteCaddyfile(t, ":80 {\nredis_ratelimit {client_ip} 3 1m {\nchallenge {\npage "+file+"\n}\n}\n}")
		caddytest.Run{}.Caddy(t, "validate", "--adapter", "caddyfile", "--config", path).Want(t, 1, "challenge: page "+file+" "+want)
	}
	assert.Must(t, os.Remove(file))
	path := caddytest.WriteCaddyfile(t, ":80 {\nredis_ratelimit {client_ip} 3 1m {\nchallenge {\npage "+file+"\n}\n}\n}")
	caddytest.Run{}.Caddy(t, "validate", "--adapter", "caddyfile", "--config", path).Want(t, 1, "challenge: page "+file+": no such file or directory")
}
