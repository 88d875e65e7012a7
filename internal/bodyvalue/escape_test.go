package bodyvalue

import (
	"net/url"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestUnescape has all pairs of bytes behind "%", beside what net/url makes of them.
func TestUnescape(t *testing.T) {
	for pair := range 1 << 16 {
		text := string([]byte{'%', byte(pair >> 8), byte(pair)})
		want, err := url.PathUnescape(text)
		got, ok := Unescape(text)
		assert.FatalIf(t, ok != (err == nil) || ok && want != string([]byte{got}), "%q is %q, %v; net/url has %q, %v", text, got, ok, want, err)
	}
	for _, text := range []string{"", "%", "%4", "41", "a%41"} {
		_, ok := Unescape(text)
		assert.ErrorIf(t, ok, "%q begins with an escape", text)
	}
	c, ok := Unescape([]byte("%41b"))
	assert.ErrorIf(t, !ok || c != 'A', "%%41 is %q, %v", c, ok)
}
