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

// TestBrowser_times exchanges tickets at their edges, and brings passes at theirs.
func TestBrowser_times(t *testing.T) {
	k := newKeeper(counting())
	issued := time.Unix(1795418711, 999_999_999)
	ready := issued.Add(earliest).Truncate(time.Second)
	ends := ready.Add(life)
	const home, neighbor, elsewhere = "203.0.113.7", "203.0.113.99", "203.0.114.7"
	ticket := k.sign(token{kindTicket, 7, ready.Unix()}, networkOf(home))
	pass := k.sign(token{kindPass, 7, ends.Unix()}, networkOf(home))
	for _, test := range []struct {
		after         time.Duration // since the issue
		text, address string
		exchanged     bool
		tls, passes   bool
	}{
		{0, ticket, home, false, false, false},
		{time.Second, ticket, home, false, false, false},
		{time.Second + time.Nanosecond, ticket, neighbor, true, false, false},
		{3 * time.Second, ticket, home, true, true, false},
		{3 * time.Second, ticket, elsewhere, false, false, false},
		{time.Hour + time.Second, ticket, home, true, false, false},
		{time.Hour + time.Second + time.Nanosecond, ticket, home, false, false, false},
		{0, pass, home, false, false, true},
		{0, pass, home, false, true, true},
		{0, pass, elsewhere, false, false, false},
		{ends.Sub(issued) - time.Nanosecond, pass, neighbor, false, false, true},
		{ends.Sub(issued), pass, home, false, false, false},
		{ends.Sub(issued) + life, pass, home, false, false, false},
	} {
		k.now = func() time.Time { return issued.Add(test.after) }
		r := httptest.NewRequest(http.MethodGet, "/a?b&rl-pass="+test.text, http.NoBody)
		prefix, other := "", hostPrefix // the names of cookies over http and TLS
		if test.tls {
			r.TLS, prefix, other = &tls.ConnectionState{}, hostPrefix, ""
		}
		r.Header.Set("Cookie", prefix+"rl-wait=1; "+prefix+"rl-pass="+test.text)
		w, b := httptest.NewRecorder(), k.Browser(r, test.address)
		number, passes := b.Pass()
		outcome, _ := b.Exchange(w, http.StatusTooManyRequests, r.URL) // writes to memory
		cookie := w.Header().Get("Set-Cookie")
		if passes != test.passes || passes && number != 7 || (outcome == passed) != test.exchanged ||
			strings.HasPrefix(cookie, prefix+"rl-pass="+pass) != test.exchanged || w.Header().Get("Location") != "./a?b" {
			t.Errorf("%+v: pass %d, %t; %s, %v", test, number, passes, outcome, w.Header())
		}
		r.Header.Set("Cookie", other+"rl-wait=1; "+other+"rl-pass="+test.text)
		if _, passes = b.Pass(); passes {
			t.Errorf("%+v: a cookie of the other scheme is read", test)
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
	if _, ok := nodes[0].read(first.sign(token{kindPass, 1, 2}, network{}), network{}, kindPass); !ok {
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
		name, cookies string
		page, passes  bool
	}{
		{"none", "", false, false}, {"pass", "session=x; rl-pass=" + vectors[1].text, false, true}, {"page", "", true, false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/a?b=c", http.NoBody)
		if row.cookies != "" {
			r.Header.Set("Cookie", row.cookies)
		}
		b.Run(row.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				browser := k.Browser(r, "203.0.113.7")
				if _, ok := browser.Pass(); ok != row.passes || BringsTicket(r.Method, r.URL) {
					b.Fatal("there is a pass, or none")
				}
				if row.page {
					clear(w.Header())
					w.Body.Reset()
					_ = browser.Page(w, http.StatusTooManyRequests, r.URL, func(uint16) bool { return true }) // writes to memory
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
		if _, ok := browser.Pass(); ok || BringsTicket(r.Method, r.URL) {
			t.Error("there is a pass")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
