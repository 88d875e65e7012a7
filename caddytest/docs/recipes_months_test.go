package docs

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestRecipes_longWindows compares the ends of windows with docs/recipes.md: a
// week ends on a Thursday, and Envoy's MONTH and YEAR are 30 and 365 days from the Unix epoch.
func TestRecipes_longWindows(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, `{
	admin {$ADMIN}
	auto_https off
}

:{$PORT} {
	redis_ratelimit /7d {
		name week
		limit 5
		window 7d
		algorithm fixed_window
	}
	redis_ratelimit /30d {
		name month
		limit 5
		window 30d
		algorithm fixed_window
	}
	redis_ratelimit /365d {
		name year
		limit 5
		window 365d
		algorithm fixed_window
	}
	respond "Hello."
}
`)
	for path, days := range map[string]int64{"/7d": 7, "/30d": 30, "/365d": 365} {
		a := n.Get(t, path)
		ends, err := strconv.ParseInt(a.Header.Get("X-Ratelimit-Reset"), 10, 64)
		if err != nil {
			t.Fatalf("%s: got %v; want X-RateLimit-Reset", path, a)
		}
		// The header is rounded up to whole seconds, and time has passed since the decision.
		end := time.Unix(ends, 0).UTC().Truncate(time.Minute)
		if past := end.Unix() % (days * 86400); past != 0 || (days == 7 && end.Weekday() != time.Thursday) {
			t.Errorf("%s: the window ends at %v, %d s past %d days from the epoch", path, end.Format(time.RFC1123), past, days)
		}
	}
}
