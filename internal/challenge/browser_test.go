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

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// bring sends a ticket or a pass at a time, and returns the outcome.
func bring(k *Keeper, at time.Time, ticket, address string) (Outcome, http.Header) {
	k.now = func() time.Time { return at }
	r := httptest.NewRequest(http.MethodGet, "/a?b&rl-pass="+ticket, http.NoBody)
	r.Header.Set("Cookie", "rl-wait=1")
	w := httptest.NewRecorder()
	browser := k.Browser(r, address)
	outcome, _ := browser.Exchange(w, http.StatusTooManyRequests)
	return outcome, w.Header()
}

// TestBrowser_times exchanges tickets at their edges, and brings passes at theirs.
func TestBrowser_times(t *testing.T) {
	k := newKeeper(counting())
	issued := time.Unix(1795418711, 999_999_999)
	ticket := k.sign(token{kindTicket, 7, issued.Add(earliest).Unix()}, networkOf("203.0.113.7"))
	for after, want := range map[time.Duration]Outcome{
		0: Invalid, time.Second: Invalid, time.Second + time.Nanosecond: Passed, 3 * time.Second: Passed,
		time.Hour + time.Second: Passed, time.Hour + time.Second + time.Nanosecond: Invalid,
	} {
		outcome, header := bring(k, issued.Add(after), ticket, "203.0.113.99")
		if outcome != want || (len(header["Set-Cookie"]) > 0) != (want == Passed) || header.Get("Location") != "./a?b" {
			t.Errorf("after %v: %s, %v", after, outcome, header)
		}
	}
	if outcome, _ := bring(k, issued.Add(3*time.Second), ticket, "203.0.114.7"); outcome != Invalid {
		t.Error("another network has the ticket")
	}
	_, header := bring(k, issued.Add(3*time.Second), ticket, "203.0.113.7")
	cookie, _, _ := strings.Cut(header.Get("Set-Cookie"), ";")
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.Header.Set("Cookie", cookie)
	ends := issued.Add(earliest).Add(life).Truncate(time.Second)
	for at, want := range map[time.Time]bool{issued: true, ends.Add(-time.Nanosecond): true, ends: false, ends.Add(life): false} {
		k.now = func() time.Time { return at }
		browser := k.Browser(r, "203.0.113.7")
		if number, ok := browser.Pass(); ok != want || ok && number != 7 {
			t.Errorf("at %v the pass is %d, %t", at, number, ok)
		}
	}
	r.TLS = &tls.ConnectionState{} // another cookie's name
	k.now = func() time.Time { return issued }
	browser := k.Browser(r, "203.0.113.7")
	if _, ok := browser.Pass(); ok {
		t.Error("a cookie of http is read over TLS")
	}
	if outcome, _ := bring(k, issued.Add(3*time.Second), strings.TrimPrefix(cookie, "rl-pass="), "203.0.113.7"); outcome != Invalid {
		t.Error("a pass is exchanged as a ticket")
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

// TestKeeper_sync has nodes agree, through a flush and a rotation.
func TestKeeper_sync(t *testing.T) {
	redis := &fake{err: errors.New("down")}
	shared := func(earlier *Keeper) *Keeper {
		return NewShared(redis, limiter.KeyFormat{Prefix: "rl"}, earlier, func(error) {})
	}
	a, b := shared(nil), shared(nil)
	sync := func(keepers ...*Keeper) {
		for _, k := range keepers {
			_ = k.sync(t.Context()) // what it knows then is checked
		}
	}
	sync(a)
	if a.Ready() {
		t.Fatal("a secret is known without Redis")
	}
	for _, garbage := range []any{"", "garbage", strings.Repeat("g", 64), strings.Repeat("0", 66), int64(7), []any{"a"}} {
		redis.value, redis.err = garbage, nil
		if sync(a); a.Ready() {
			t.Fatalf("%v became a secret", garbage)
		}
	}
	redis.value = nil
	sync(a, b)
	first := a.secrets.Load().Secret
	if !a.Ready() || b.secrets.Load().Secret != first {
		t.Fatal("two nodes have two secrets")
	}
	redis.value = nil // flushed
	sync(b, a)
	if redis.value != hex.EncodeToString(first[:]) || a.secrets.Load().Secret != first {
		t.Error("a flushed Redis has another secret")
	}
	text := a.sign(token{kindPass, 1, 2}, network{})
	rotated := counting()
	redis.value = hex.EncodeToString(rotated[:])
	sync(a)
	if _, ok := a.read(text, network{}, kindPass); !ok || a.secrets.Load().Secret != rotated {
		t.Error("the former secret reads no token, or the new one signs none")
	}
	redis.value = "garbage"
	if sync(a); a.secrets.Load().Secret != rotated {
		t.Error("garbage has ended a secret")
	}
	if c := shared(a); !c.Ready() || c.secrets.Load() != a.secrets.Load() {
		t.Error("a reload forgets the secret")
	}
}

// TestKeeper_race reads and signs while the secret changes and keepers come and go.
func TestKeeper_race(t *testing.T) {
	redis := &fake{}
	k := NewShared(redis, limiter.KeyFormat{}, nil, func(error) {})
	k.Start()
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
				r.Header.Set("Cookie", "rl-pass="+vectors[1].text)
				browser := k.Browser(r, "203.0.113.7")
				browser.Pass()
			}
		})
	}
	for i := range 200 {
		secret := SecretOf(strings.Repeat("x", i))
		redis.mu.Lock()
		redis.value = hex.EncodeToString(secret[:])
		redis.mu.Unlock()
		_ = k.sync(t.Context()) // which never fails here
		next := NewShared(redis, limiter.KeyFormat{}, k, func(error) {})
		next.Start()
		next.Close()
	}
	close(stop)
	readers.Wait()
	k.Close()
}

// BenchmarkBrowser measures what a request with a pass, one with none, and a page add.
func BenchmarkBrowser(b *testing.B) {
	k := newKeeper(counting())
	k.now = func() time.Time { return time.Unix(1795418711, 0) }
	r := httptest.NewRequest(http.MethodGet, "/a?b=c", http.NoBody)
	b.Run("none", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			browser := k.Browser(r, "203.0.113.7")
			if _, ok := browser.Pass(); ok || BringsTicket(r) {
				b.Fatal("there is a pass")
			}
		}
	})
	with := r.Clone(b.Context())
	with.Header.Set("Cookie", "session=x; rl-pass="+vectors[1].text)
	b.Run("pass", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			browser := k.Browser(with, "203.0.113.7")
			if _, ok := browser.Pass(); !ok {
				b.Fatal("there is no pass")
			}
		}
	})
	b.Run("page", func(b *testing.B) {
		b.ReportAllocs()
		w := httptest.NewRecorder()
		for b.Loop() {
			clear(w.Header())
			w.Body.Reset()
			browser := k.Browser(r, "203.0.113.7")
			_ = browser.Page(w, http.StatusTooManyRequests, func(uint16) bool { return true })
		}
	})
}

// TestBrowser_no_allocation has requests without a cookie cost none.
func TestBrowser_no_allocation(t *testing.T) {
	k := newKeeper(counting())
	r := httptest.NewRequest(http.MethodGet, "/a?b=c", http.NoBody)
	if n := testing.AllocsPerRun(100, func() {
		browser := k.Browser(r, "203.0.113.7")
		if _, ok := browser.Pass(); ok || BringsTicket(r) {
			t.Error("there is a pass")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
