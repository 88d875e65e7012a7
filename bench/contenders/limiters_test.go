package contenders

import (
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func TestLimiters_count(t *testing.T) {
	server := redistest.Start(t)
	for _, way := range Ways {
		t.Run(way, func(t *testing.T) {
			l, err := newLimiter(way, server.Addr)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			for i := range int64(3) {
				got, err := l.take(t.Context(), "client of "+way)
				most := Limit - 1 - i // one less is right too: redis_rate's numbers are not exact
				if err != nil || !got.allowed || got.remaining > most || got.remaining < most-1 || got.resetAfter <= 0 {
					t.Errorf("request %d: got %+v, %v", i, got, err)
				}
			}
		})
	}
}

func TestCounter_denies_above_the_limit(t *testing.T) {
	client := redistest.Start(t).Client(t)
	const limit, window = 2, 3_600_000_000
	for i, want := range []int64{1, 1, 0} {
		got, err := counter.Run(t.Context(), client, []string{"key"}, limit, window).Int64Slice()
		if err != nil || len(got) != 3 || got[0] != want {
			t.Errorf("request %d: got %v, %v; want %d first", i, got, err, want)
		}
	}
}
