package challenge

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// The addresses of a browser, of another one of its network, and of one elsewhere.
const home, neighbor, elsewhere = "203.0.113.7", "203.0.113.99", "203.0.114.7"

// issued is an instant before a second begins. The ticket of its page is ready then.
var issued, ready = time.Unix(1795418711, 999_999_999), time.Unix(1795418712, 0)

// keeperAt returns a keeper of the secret of the vectors, and what sets its clock.
func keeperAt(now time.Time) (k *Keeper, set func(time.Time)) {
	k = newKeeper(counting())
	set = func(now time.Time) { k.now = func() time.Time { return now } }
	set(now)
	return k, set
}

// TestBrowser_times exchanges tickets at their edges, and brings passes at theirs.
func TestBrowser_times(t *testing.T) {
	k, set := keeperAt(issued)
	ends := ready.Add(life)
	ticket := k.sign(token{kindTicket, 7, ready.Unix()}, networkOf(home))
	pass := k.sign(token{kindPass, 7, ends.Unix()}, networkOf(home))
	for _, test := range []struct {
		after         time.Duration // since the issue
		text, address string
		want          Result
		tls, passes   bool
	}{
		{0, ticket, home, early, false, false},
		{-time.Second, ticket, home, early, false, false},
		{time.Nanosecond, ticket, neighbor, Passed, false, false},
		{time.Second, ticket, home, Passed, true, false},
		{time.Second, ticket, elsewhere, invalid, false, false},
		{time.Hour, ticket, home, Passed, false, false},
		{time.Hour + time.Nanosecond, ticket, home, invalid, false, false},
		{0, pass, home, invalid, false, true},
		{0, pass, home, invalid, true, true},
		{0, pass, elsewhere, invalid, false, false},
		{ends.Sub(issued) - time.Nanosecond, pass, neighbor, invalid, false, true},
		{ends.Sub(issued), pass, home, invalid, false, false},
		{ends.Sub(issued) + life, pass, home, invalid, false, false},
	} {
		set(issued.Add(test.after))
		r := httptest.NewRequest(http.MethodGet, "/a?b&rl-pass="+test.text, http.NoBody)
		prefix, other := "", hostPrefix // the names of cookies over http and TLS
		if test.tls {
			r.TLS, prefix, other = &tls.ConnectionState{}, hostPrefix, ""
		}
		r.Header.Set("Cookie", prefix+"rl-wait=1; "+prefix+"rl-pass="+test.text)
		w, b := httptest.NewRecorder(), k.Browser(r, test.address)
		number, standing := b.Pass()
		outcome, _ := b.Exchange(w, r.URL, Look{Status: http.StatusTooManyRequests}) // writes to memory
		cookie := w.Header().Get("Set-Cookie")
		if (standing == Waited) != test.passes || standing != NoPass && number != 7 || outcome != test.want ||
			strings.HasPrefix(cookie, prefix+"rl-pass="+pass) != (test.want == Passed) || w.Header().Get("Location") != "./a?b" {
			t.Errorf("%+v: pass %d, %v; %s, %v", test, number, standing, outcome, w.Header())
		}
		r.Header.Set("Cookie", other+"rl-wait=1; "+other+"rl-pass="+test.text)
		if _, standing = b.Pass(); standing != NoPass {
			t.Errorf("%+v: a cookie of the other scheme is read", test)
		}
	}
}

// TestBrowser_Early has browsers whose ticket is early wait, as their page is from a node whose clock is ahead: at most a
// second, and then the ticket is good.
func TestBrowser_Early(t *testing.T) {
	k, set := keeperAt(issued)
	n := networkOf(home)
	for _, kind := range []kind{kindTicket, kindProvenTicket, kindFile, kindPass} {
		text := k.sign(token{kind, 7, ready.Unix()}, n)
		r := httptest.NewRequest(http.MethodGet, "/?rl-pass="+text, http.NoBody)
		r.Header.Set("Cookie", "rl-wait="+k.sign(token{kindFile, 1, ready.Unix()}, n))
		for ahead, want := range map[time.Duration]time.Duration{
			-time.Second: 0, 0: 0, time.Millisecond: time.Millisecond, time.Second: time.Second, 1500 * time.Millisecond: time.Second,
			2 * time.Second: time.Second, 2*time.Second + time.Nanosecond: 0, time.Hour: 0,
		} {
			isTicket := kind == kindTicket || kind == kindProvenTicket
			if !isTicket {
				want = 0
			}
			set(ready.Add(-ahead))
			b := k.Browser(r, home)
			if got := b.Early(r.URL); got != want {
				t.Errorf("a token of kind %d that is early by %v waits for %v; want %v", kind, ahead, got, want)
			}
			if want == 0 || !isTicket {
				continue
			}
			w := httptest.NewRecorder()
			if o, _ := b.Exchange(w, r.URL, Look{Status: 429}); o != early { // without a wait
				t.Errorf("%v early, without a wait: %s", ahead, o)
			}
			set(ready.Add(want - ahead))
			b.HasWaited()
			if o, _ := b.Exchange(httptest.NewRecorder(), r.URL, Look{Status: 429}); o != Passed {
				t.Errorf("%v early, after a wait: %s", ahead, o)
			}
		}
	}
}

// TestBrowser_proven brings tickets whose wait counts only of browsers that have loaded the style sheet.
func TestBrowser_proven(t *testing.T) {
	k, set := keeperAt(issued)
	sign := func(kind kind, at time.Time, address string) string {
		return k.sign(token{kind, 7, at.Unix()}, networkOf(address))
	}
	ticket := sign(kindProvenTicket, ready, home)
	loaded, foreign := sign(kindFile, ready, home), sign(kindFile, ready, elsewhere)
	proven, plain := sign(kindProvenPass, ready.Add(life), home), sign(kindPass, ready.Add(life), home)
	for _, test := range []struct {
		cookies string
		after   time.Duration // since the ticket was ready
		want    Result
		wait    string // the cookie that is set; empty: none
	}{
		{"rl-wait=" + loaded, 0, Passed, ""},
		{"rl-wait=3; rl-wait=" + loaded, 0, Passed, ""},
		{"rl-wait=" + loaded, life - 1, Passed, ""},
		{"rl-wait=" + loaded, life, invalid, ""},
		{"rl-pass=" + proven, 0, Passed, ""},
		{"rl-pass=" + plain, 0, Shown, "1"}, // has waited and shown nothing
		{"rl-wait=1", 0, Shown, "2"},
		{"rl-wait=2", 0, Shown, "3"},
		{"rl-wait=3", 0, Cookieless, ""},
		{"rl-wait=3", onceLife - 1, Cookieless, ""},
		{"rl-wait=3", onceLife, invalid, ""},
		{"", 0, Cookieless, ""},
		{"session=x", 0, Cookieless, ""},
		{"", onceLife, invalid, ""},
		{"rl-wait=" + foreign, 0, Shown, "1"},
		{"rl-wait=" + ticket, 0, Shown, "1"},
		{"rl-wait=" + proven, 0, Shown, "1"},
		{"rl-wait=4", 0, Shown, "1"},
		{"rl-wait=-1", 0, Shown, "1"},
		{"rl-wait=", 0, Shown, "1"},
		{"rl-pass=" + loaded, 0, Shown, "1"},
		{"rl-pass=forged", 0, Shown, "1"},
	} {
		set(ready.Add(test.after))
		r := httptest.NewRequest(http.MethodGet, "/dir/a?b&rl-pass="+ticket, http.NoBody)
		r.Header.Set("Cookie", test.cookies)
		w, b := httptest.NewRecorder(), k.Browser(r, home)
		outcome, _ := b.Exchange(w, r.URL, Look{Status: http.StatusTooManyRequests}) // writes to memory
		cookie := w.Header().Get("Set-Cookie")
		wait, _, _ := strings.Cut(strings.TrimPrefix(cookie, "rl-wait="), ";")
		if outcome != test.want || test.wait != "" && wait != test.wait {
			t.Errorf("%+v: %s, cookie %q", test, outcome, cookie)
		}
		switch outcome {
		case Passed:
			if !strings.HasPrefix(cookie, "rl-pass="+proven) || w.Header().Get("Location") != "./a?b" {
				t.Errorf("%+v: %v", test, w.Header())
			}
		case Shown:
			if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" || strings.Count(w.Body.String(), "rl-pass=") != 3 {
				t.Errorf("%+v: %d %v %s", test, w.Code, w.Header(), w.Body)
			}
		case Cookieless:
			if len(w.Header()) > 0 || w.Body.Len() > 0 || w.Code != http.StatusOK {
				t.Errorf("%+v is answered: %v", test, w.Header())
			}
		}
	}
}

// TestBrowser_file loads the style sheet: the cookie is that of the token, and one of another network is none.
func TestBrowser_file(t *testing.T) {
	k, set := keeperAt(issued)
	text := k.sign(token{kindFile, 7, ready.Unix()}, networkOf(home))
	r := httptest.NewRequest(http.MethodGet, "/a?b&rl-pass="+text, http.NoBody)
	for _, test := range []struct {
		address string
		after   time.Duration // since the ticket was ready
		want    Result
	}{{home, -time.Second, file}, {neighbor, life - 1, file}, {home, life, invalid}, {elsewhere, 0, invalid}} {
		set(ready.Add(test.after))
		w, b := httptest.NewRecorder(), k.Browser(r, test.address)
		outcome, _ := b.Exchange(w, r.URL, Look{Status: http.StatusTooManyRequests}) // writes to memory
		if loads := outcome == file; outcome != test.want || loads && (w.Code != 200 || w.Body.String() != style || w.Header().Get("Content-Type") != "text/css; charset=utf-8") ||
			strings.HasPrefix(w.Header().Get("Set-Cookie"), "rl-wait="+text) != loads || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%+v: %s, %d %v", test, outcome, w.Code, w.Header())
		}
	}
}

// TestBrowser_Pass_late has a pass that has ended be late for three hours if its browser had loaded the style sheet.
func TestBrowser_Pass_late(t *testing.T) {
	k, set := keeperAt(issued)
	for kind, standings := range map[kind][4]Standing{
		kindProvenPass: {Proven, Late, Late, NoPass}, kindPass: {Waited, NoPass, NoPass, NoPass}, kindTicket: {}, kindFile: {}, kindProvenTicket: {},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		r.Header.Set("Cookie", "rl-pass="+k.sign(token{kind, 7, ready.Unix()}, networkOf(home)))
		b := k.Browser(r, home)
		for i, after := range []time.Duration{-1, 0, lateLife - 1, lateLife} {
			set(ready.Add(after))
			if _, got := b.Pass(); got != standings[i] {
				t.Errorf("kind %d, %v after its end: %v, want %v", kind, after, got, standings[i])
			}
		}
	}
}

// TestBrowser_Exchange_keeps_proof has a browser that has loaded a style sheet stay one after a page without.
func TestBrowser_Exchange_keeps_proof(t *testing.T) {
	k, _ := keeperAt(ready)
	n := networkOf(home)
	r := httptest.NewRequest(http.MethodGet, "/?rl-pass="+k.sign(token{kindTicket, 8, ready.Unix()}, n), http.NoBody)
	r.Header.Set("Cookie", "rl-wait=1; rl-pass="+k.sign(token{kindProvenPass, 7, ready.Unix() + 1}, n))
	w, b := httptest.NewRecorder(), k.Browser(r, home)
	outcome, _ := b.Exchange(w, r.URL, Look{Status: 429}) // writes to memory
	if want := "rl-pass=" + k.sign(token{kindProvenPass, 8, ready.Add(life).Unix()}, n); outcome != Passed || !strings.HasPrefix(w.Header().Get("Set-Cookie"), want) {
		t.Errorf("%s %v", outcome, w.Header())
	}
}

// TestBrowser_Page_waits counts the pages in a cookie, which does not replace that of a style sheet.
func TestBrowser_Page_waits(t *testing.T) {
	k, _ := keeperAt(ready)
	loaded := k.sign(token{kindFile, 7, ready.Unix()}, networkOf(home))
	for cookie, want := range map[string]string{"": "1", "rl-wait=1": "2", "rl-wait=2": "3", "rl-wait=3": "3", "rl-wait=x": "1", "rl-wait=" + loaded: ""} {
		for _, proven := range []bool{false, true} {
			r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
			r.Header.Set("Cookie", cookie)
			w, b := httptest.NewRecorder(), k.Browser(r, home)
			_ = b.Page(w, "", Look{Status: 429, Proven: proven}, func(uint16) bool { return true }) // writes to memory
			got, _, _ := strings.Cut(strings.TrimPrefix(w.Header().Get("Set-Cookie"), "rl-wait="), ";")
			if got != want || w.Header().Get("Retry-After") != "1" {
				t.Errorf("%q, proven %t: %v, want the cookie %q", cookie, proven, w.Header(), want)
			}
		}
	}
}

// TestParsePage reads pages of operators.
func TestParsePage(t *testing.T) {
	const link, sheet = `<meta http-equiv="refresh" content="1;url={challenge.link}">`, `<link rel="stylesheet" href="{challenge.stylesheet}">`
	for text, want := range map[string]string{
		link + "a" + sheet + "b": "1;url=?L|a|?S|b", sheet + "a" + link: "?S|a|1;url=?L",
		link:                            "lacks {challenge.stylesheet}; write " + sheet + " into its head",
		sheet:                           "lacks {challenge.link}; write " + link + " into its head",
		"":                              "lacks {challenge.link}",
		link + sheet + link:             "has {challenge.link} 2 times; write it once",
		link + sheet + "\xff":           "is not in UTF-8",
		strings.Repeat("a", MaxPage+1):  "has 65537 bytes; use at most 65536",
		link + "{challenge.Stylesheet}": "lacks {challenge.stylesheet}",
	} {
		page, err := ParsePage(text)
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%.60q: %v, want %s", text, err, want)
			}
			continue
		}
		got := page.text("?L", "?S")
		for _, piece := range strings.Split(want, "|") {
			_, rest, found := strings.Cut(got, piece)
			if !found {
				t.Errorf("%q: %s lacks %s", text, got, piece)
			}
			got = rest
		}
	}
}

// fake is a Redis that holds one key.
type fake struct {
	mu    sync.Mutex
	value any // nil: none
	err   error
}

func (f *fake) Command(_ context.Context, _ int8, words ...any) (any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if words[0] == "set" && f.value == nil && f.err == nil {
		f.value = words[2]
	}
	return f.value, f.err
}

// TestKeeper_sync has two nodes agree, through failures, a flush, a rotation and a reload.
func TestKeeper_sync(t *testing.T) {
	first, rotated := secretOf("first"), counting()
	text := hex.EncodeToString(first[:])
	redis := &fake{}
	shared := func(earlier *Keeper) *Keeper {
		return NewShared(redis, limiter.KeyFormat{Prefix: "rl"}, earlier, func(error) {})
	}
	nodes := []*Keeper{shared(nil), shared(nil)}
	for _, step := range []struct {
		value any
		err   error
		want  *secret
	}{
		{nil, errors.New("down"), nil}, {"", nil, nil}, {"garbage", nil, nil}, {strings.Repeat("g", 64), nil, nil}, {text + "00", nil, nil}, {int64(7), nil, nil}, {[]any{"a"}, nil, nil},
		{text, nil, &first}, {nil, nil, &first}, {"garbage", nil, &first}, {nil, errors.New("down"), &first},
		{hex.EncodeToString(rotated[:]), nil, &rotated}, {"garbage", nil, &rotated},
	} {
		redis.value, redis.err = step.value, step.err
		for i, k := range nodes {
			_ = k.sync(t.Context()) // what it knows then is checked
			if k.Ready() != (step.want != nil) || k.Ready() && k.secrets.Load().secret != *step.want {
				t.Errorf("%+v: node %d has %v", step, i, k.secrets.Load())
			}
		}
		if step.value == nil && step.err == nil && redis.value != text {
			t.Errorf("a flushed Redis has %v", redis.value)
		}
	}
	if _, ok := nodes[0].read(first.newSigner().sign(token{kindPass, 1, 2}, network{}), network{}, kindPass); !ok {
		t.Error("the former secret reads no token")
	}
	if k := shared(nodes[0]); !k.Ready() || k.secrets.Load() != nodes[0].secrets.Load() {
		t.Error("a reload forgets the secret")
	}
	redis.value = nil
	fresh := []*Keeper{shared(nil), shared(nil)}
	if fresh[0].sync(t.Context()) != nil || fresh[1].sync(t.Context()) != nil || fresh[0].secrets.Load().secret != fresh[1].secrets.Load().secret {
		t.Error("two nodes at an empty Redis have two secrets")
	}
}

// TestKeeper_race reads while the secret changes and keepers come and go.
func TestKeeper_race(t *testing.T) {
	redis := &fake{}
	k := NewShared(redis, limiter.KeyFormat{}, nil, func(error) {})
	k.Start()
	defer k.Close()
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for ctx.Err() == nil {
				k.read(vectors[1].text, networkOf(vectors[1].address), kindPass)
			}
		})
	}
	for i := range 200 {
		secret := secretOf(strings.Repeat("x", i))
		redis.mu.Lock()
		redis.value = hex.EncodeToString(secret[:])
		redis.mu.Unlock()
		_ = k.sync(t.Context()) // which never fails here
		next := NewShared(redis, limiter.KeyFormat{}, k, func(error) {})
		next.Start()
		next.Close()
	}
	stop()
	readers.Wait()
}

// BenchmarkBrowser measures what a request with a pass, one with none, and a page add.
func BenchmarkBrowser(b *testing.B) {
	k := newKeeper(counting())
	k.now = func() time.Time { return time.Unix(1795418711, 0) }
	w := httptest.NewRecorder()
	for _, row := range []struct {
		name, cookies        string
		page, proven, passes bool
	}{
		{name: "none"}, {name: "pass", cookies: "session=x; rl-pass=" + vectors[1].text, passes: true},
		{name: "page", page: true}, {name: "page with a style sheet", page: true, proven: true},
	} {
		r := httptest.NewRequest(http.MethodGet, "/a?b=c", http.NoBody)
		if row.cookies != "" {
			r.Header.Set("Cookie", row.cookies)
		}
		b.Run(row.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				browser := k.Browser(r, "203.0.113.7")
				if _, standing := browser.Pass(); (standing == Waited) != row.passes || BringsToken(r.Method, r.URL) {
					b.Fatal("there is a pass, or none")
				}
				if row.page {
					clear(w.Header())
					w.Body.Reset()
					_ = browser.Page(w, r.URL.RawQuery, Look{Status: 429, Proven: row.proven}, func(uint16) bool { return true }) // writes to memory
				}
			}
		})
	}
}

// TestBrowser_no_allocation has requests without a pass cost none.
func TestBrowser_no_allocation(t *testing.T) {
	k := newKeeper(counting())
	r := httptest.NewRequest(http.MethodGet, "/a?b=c", http.NoBody)
	r.Header.Set("Cookie", "session=x")
	if n := testing.AllocsPerRun(100, func() {
		browser := k.Browser(r, "203.0.113.7")
		if _, standing := browser.Pass(); standing != NoPass || BringsToken(r.Method, r.URL) {
			t.Error("there is a pass")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
