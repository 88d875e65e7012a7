package storepool

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestCookieWatch has requests with a session, some of whose responses set it anew.
func TestCookieWatch(t *testing.T) {
	for name, test := range map[string]struct {
		sent  string
		set   func(i int) string
		times int
		want  bool
	}{
		"anew each time":        {"session=a", func(i int) string { return fmt.Sprint("session=b", i, "; Path=/; HttpOnly") }, 100, true},
		"anew nine of ten":      {"session=a", func(i int) string { return []string{"x=y", "session=b"}[min(1, i%10)] }, 100, true},
		"anew eight of ten":     {"session=a", func(i int) string { return []string{"x=y", "session=b"}[min(1, i%5)] }, 100, false},
		"the same, for longer":  {"session=a", func(int) string { return "session=a; Max-Age=60" }, 100, false},
		"ended":                 {"session=a", func(int) string { return "session=; Max-Age=0" }, 100, false},
		"without the cookie":    {"x=y", func(int) string { return "session=b" }, 1000, false},
		"too few":               {"session=a", func(int) string { return "session=b" }, 99, false},
		"another cookie's name": {"session=a", func(int) string { return "session2=b" }, 100, false},
	} {
		watch, told := NewCookieWatch("session"), 0
		for i := range test.times {
			r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
			r.Header.Set("Cookie", test.sent)
			if watch.Look(r, http.Header{"Set-Cookie": {test.set(i)}}) {
				told++
			}
		}
		assert.ErrorIf(t, (told == 1) != test.want || told > 1, "%s: told %d times, want it: %v", name, told, test.want)
		assert.Equal(t, watch.IsDone(), test.times == 100, "whether %s is done", name)
	}
}
