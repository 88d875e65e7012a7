package failover

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/running"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
)

// BenchmarkRedis_states has one process state what it runs for 100,000 keys, as every third of the node
// timeout, and reports the time of Redis for one state, and which part of a core that is every 5 seconds.
func BenchmarkRedis_states(b *testing.B) {
	const keys = 100_000
	server := redistest.Shared(b)
	n := newTestRedis(b, server, 10*time.Second, limiter.KeyFormat{Prefix: "t"})
	p := storetest.ConcurrencyPolicy(b, 10)
	tracker := n.Running
	tracker.Ticking.Store(true) // the benchmark decides when states leave
	later := time.Duration(0)
	tracker.Now = func() time.Time { return time.Now().Add(later) }
	for i := range keys {
		key := fmt.Sprintf("10.0.%d.%d", i/256, i%256)
		s := tracker.ShardOf(key)
		s.Mu.Lock()
		tracker.LetThrough(tracker.Find(p, key, tracker.Now()), 1, tracker.Now())
		s.Mu.Unlock()
	}
	round := func() {
		for left := 0; left < running.StatesPerSpan; {
			if left = tracker.SendDue(running.StatesPerSpan); left == 0 {
				time.Sleep(running.BusySpan) //nolint:forbidigo // the pace of states
			}
		}
		for inflight(tracker) > 0 {
			time.Sleep(20 * time.Millisecond) //nolint:forbidigo // measures while it waits
		}
	}
	round()
	before, states := redisSeconds(b, server), 0
	for b.Loop() {
		later += 5 * time.Second
		round()
		states += keys
	}
	each := (redisSeconds(b, server) - before) / float64(states)
	b.ReportMetric(each*1e6, "redis-µs/state")
	b.ReportMetric(each*keys/5*100, "%core")
}

// inflight returns how many messages are on their way.
func inflight(t *running.Tracker) (messages int) {
	for i := range t.Shards {
		s := &t.Shards[i]
		s.Mu.Lock()
		for _, r := range s.Records {
			messages += r.Inflight
		}
		s.Mu.Unlock()
	}
	return messages
}

// redisSeconds returns the time that Redis has worked.
func redisSeconds(b *testing.B, server *redistest.Server) (seconds float64) {
	b.Helper()
	info := server.Client(b).Info(context.Background(), "cpu").Val()
	for _, field := range []string{"used_cpu_user_main_thread", "used_cpu_sys_main_thread"} {
		found := regexp.MustCompile(field + `:([0-9.]+)`).FindStringSubmatch(info)
		if found == nil {
			b.Skip("this Redis does not report the time of its main thread")
		}
		n, err := strconv.ParseFloat(found[1], 64)
		noError(b, err)
		seconds += n
	}
	return seconds
}
