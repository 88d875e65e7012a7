package contenders

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func TestLimiters_count(t *testing.T) {
	server := redistest.Start(t)
	for _, way := range Ways {
		t.Run(way, func(t *testing.T) { counts(t, opened(t, way, server.Addr, 1)) })
	}
}

// opened is a limiter that the test closes.
func opened(t *testing.T, way, address string, policies int) limiter {
	t.Helper()
	l, err := newLimiter(way, address, policies)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// counts has a limiter decide three requests of a client.
func counts(t *testing.T, l limiter) {
	t.Helper()
	for i := range int64(3) {
		got, err := l.take(t.Context(), "client of "+t.Name())
		most := Limit - 1 - i // one less is right too: redis_rate's numbers are not exact
		if err != nil || !got.allowed || got.remaining > most || got.remaining < most-1 || got.resetAfter <= 0 {
			t.Errorf("request %d: got %+v, %v", i, got, err)
		}
	}
}

// TestLimiters_several_policies has a client use up each of its policies in turn, whose request is denied then.
func TestLimiters_several_policies(t *testing.T) {
	server := redistest.Start(t)
	redis := server.Client(t)
	for _, way := range Several {
		for policies := 1; policies <= len(Windows); policies++ {
			t.Run(fmt.Sprint(way, policies), func(t *testing.T) {
				l := opened(t, way, server.Addr, policies)
				counts(t, l)
				for _, q := range quotas[:policies] {
					key := q.keys("client of " + t.Name())[0]
					state, err := redis.SetArgs(t.Context(), key, full(q.window), goredis.SetArgs{Get: true}).Result()
					if err != nil || len(state) != 24 {
						t.Fatalf("%s has %q, %v", key, state, err)
					}
					if got, err := l.take(t.Context(), "client of "+t.Name()); err != nil || got.allowed || got.remaining != 0 {
						t.Errorf("with nothing left in %v: got %+v, %v", q.window, got, err)
					}
					redis.Set(t.Context(), key, state, 0)
				}
				counted, err := redis.Keys(t.Context(), "*"+t.Name()+"*").Result()
				if err != nil || len(counted) != policies {
					t.Errorf("%d policies have counted in %q, %v", policies, counted, err)
				}
			})
		}
	}
	for _, policies := range []int{-1, 0, 2} {
		if _, err := newLimiter(Lone, server.Addr, policies); err == nil {
			t.Errorf("%s knows %d policies", Lone, policies)
		}
	}
}

// full is the state of a client that has used up a window twice: nothing is left at the start of the next one either,
// which may begin meanwhile.
func full(window time.Duration) []byte {
	index := time.Now().UnixMicro() / window.Microseconds()
	var state []byte
	for _, number := range []float64{float64(index), 2 * Limit, 0} {
		state = binary.LittleEndian.AppendUint64(state, math.Float64bits(number))
	}
	return state
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
