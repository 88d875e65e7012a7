package limiter_test

import (
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

func TestEncodeKey(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "192.0.2.7": "192.0.2.7", "a b|ü\n\x00\xff": "a b|ü\n\x00\xff", "%": "%25", "{a}": "%7Ba%7D", "%7B": "%257B",
		strings.Repeat("a", 128): strings.Repeat("a", 128),
		strings.Repeat("a", 129): "%~",
	} {
		got := limiter.EncodeKey(text).String()
		if len(text) > 128 {
			if len(got) != 66 || !strings.HasPrefix(got, want) {
				t.Errorf("%d bytes: got %q", len(text), got)
			}
			continue
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		if again := limiter.AsEncoded(got).String(); again != got {
			t.Errorf("%q: as encoded it is %q", got, again)
		}
	}
	if got := limiter.AsEncoded("a{b}").String(); got != "a%7Bb%7D" {
		t.Errorf("braces in an encoded text: %q", got)
	}
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
		if (a == b) != (x == y) {
			t.Errorf("%q and %q have the keys %q and %q", a, b, x, y)
		}
		if len(x.String()) > 128 || strings.ContainsAny(x.String(), "{}") {
			t.Errorf("%q has the key %q", a, x)
		}
	})
}

// TestAsEncoded_String returns every key by the text that it returned.
func TestAsEncoded_String(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "a", strings.Repeat("{", 100), strings.Repeat("}", 128), strings.Repeat("{", 129), strings.Repeat("x", 300)} {
		for _, key := range []limiter.EncodedKey{limiter.AsEncoded(text), limiter.EncodeKey(text)} {
			if again := limiter.AsEncoded(key.String()); again != key || len(key.String()) > 128 {
				t.Errorf("%q has the key %q, and that has %q", text, key, again)
			}
		}
	}
}
