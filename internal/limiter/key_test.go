package limiter_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

func TestEncodeKey(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "192.0.2.7": "192.0.2.7", "a b|ü\n\x00\xff": "a b|ü\n\x00\xff", "%": "%25", "{a}": "%7Ba%7D", "%7B": "%257B",
		strings.Repeat("a", 128): strings.Repeat("a", 128),
		strings.Repeat("a", 129): "%~",
	} {
		got := limiter.EncodeKey(text).String()
		if len(text) > 128 {
			assert.ErrorIf(t, len(got) != 66 || !strings.HasPrefix(got, want), "%d bytes: got %q", len(text), got)
			continue
		}
		assert.ErrorIf(t, got != want, "%q: got %q, want %q", text, got, want)
		assert.Equal(t, limiter.AsEncoded(got).String(), got, "%q: as encoded it", got)
	}
	assert.Equal(t, limiter.AsEncoded("a{b}").String(), "a%7Bb%7D", "braces in an encoded text")
}

// FuzzEncodeKey tries two texts: their keys differ where they do, and no key has braces or is long.
func FuzzEncodeKey(f *testing.F) {
	f.Add("", "%")
	f.Add("{", "%7B")
	f.Add("}x", "x")
	f.Add(strings.Repeat("%", 60), strings.Repeat("{", 60))
	f.Add(limiter.EncodeKey(strings.Repeat("a", 200)).String(), strings.Repeat("a", 200))
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := limiter.EncodeKey(a), limiter.EncodeKey(b)
		assert.ErrorIf(t, (a == b) != (x == y), "%q and %q have the keys %q and %q", a, b, x, y)
		assert.ErrorIf(t, len(x.String()) > 128 || strings.ContainsAny(x.String(), "{}"), "%q has the key %q", a, x)
	})
}

// TestAsEncoded_String returns every key by the text that it returned.
func TestAsEncoded_String(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "a", strings.Repeat("{", 100), strings.Repeat("}", 128), strings.Repeat("{", 129), strings.Repeat("x", 300)} {
		for _, key := range []limiter.EncodedKey{limiter.AsEncoded(text), limiter.EncodeKey(text)} {
			again := limiter.AsEncoded(key.String())
			assert.ErrorIf(t, again != key || len(key.String()) > 128, "%q has the key %q, and that has %q", text, key, again)
		}
	}
}

func TestBinding(t *testing.T) {
	t.Parallel()
	p := func(limit int64) *limiter.Policy {
		return storetest.NewPolicy(t, limiter.Settings{Name: fmt.Sprint("p", limit), Algorithm: limiter.GCRA, Limit: limit, Window: time.Minute})
	}
	check := func(limit, remaining int64, retry time.Duration) limiter.Check {
		return limiter.Check{Policy: p(limit), Result: limiter.Result{Remaining: remaining, RetryAfter: retry}}
	}
	for _, test := range []struct {
		name   string
		checks []limiter.Check
		want   int
	}{
		{"nothing", nil, -1},
		{"the smaller part of its capacity", []limiter.Check{check(100, 50, 0), check(10, 4, 0)}, 1},
		{"the first of equals", []limiter.Check{check(100, 50, 0), check(10, 5, 0)}, 0},
		{"a denial before any allowance", []limiter.Check{check(10, 0, 0), check(10, 3, time.Second)}, 1},
		{"the longest wait", []limiter.Check{check(10, 0, time.Second), check(10, 0, time.Minute)}, 1},
		{"never before any wait", []limiter.Check{check(10, 0, time.Minute), check(10, 9, limiter.Never)}, 1},
		{"the first of nevers", []limiter.Check{check(10, 0, limiter.Never), check(10, 9, limiter.Never)}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := limiter.Binding(test.checks)
			assert.ErrorIf(t, got != test.want, "got %d, want %d", got, test.want)
		})
	}
}
