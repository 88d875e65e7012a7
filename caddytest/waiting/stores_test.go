package waiting

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/failover"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/waiting"
)

// stores are nodes without Caddy, all in this process: more than this machine has room for as processes.
type stores struct {
	*gauge
	policy  *limiter.Policy
	service time.Duration
	queues  []*failover.Queue
}

func newStores(t *testing.T, count int, limit int64, service time.Duration, server *redistest.Server) *stores {
	t.Helper()
	s := &stores{gauge: newGauge(int(limit)), service: service}
	s.policy = assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "place", MaxConcurrent: limit, Waits: true}))(t)
	for range count {
		client := assert.NoError(dial.New(dial.Connection{Addresses: []string{server.Addr}, Timeout: time.Second}))(t)
		r := redis.New(client, redis.Setup{})
		t.Cleanup(func() { _ = r.Close() })
		s.queues = append(s.queues, failover.NewQueue(failover.New(r, memory.New(), failover.Behavior{}), waiting.Environment{}))
	}
	return s
}

// serve has a client of a node send one request after the other for a key, until the context ends.
func (s *stores) serve(ctx context.Context, node int, key string) {
	for ctx.Err() == nil {
		r := waiting.Request{Policy: s.policy, Key: limiter.EncodeKey(key), Weight: 1, Longest: 10 * time.Minute, Most: 1000, FailMode: limiter.FailClosed}
		s.arrive(key)
		place, err := s.queues[node].Join(r).Wait(ctx)
		if err != nil {
			return
		}
		s.start(key, "all", place.Waited)
		<-time.After(service(s.service))
		s.end(key)
		place.End()
	}
}

// TestSpeed_nodes has 52 requests wait on 20 nodes, for services of 30 s.
func TestSpeed_nodes(t *testing.T) {
	long(t)
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes")
	s, y := newStores(t, 20, 8, 30*time.Second, server), watch(t, server)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for i := range 60 {
		go s.serve(ctx, i%20, "k")
	}
	<-time.After(70 * time.Second)
	s.begin()
	y.begin()
	<-time.After(180 * time.Second)
	calls := y.report(t, "20 nodes, 8 places, 30 s, 52 wait") / 52
	t.Logf("%.2f calls a second and waiting request; %.2f%% of the places were used", calls, 100*s.use())
	assert.ErrorIf(t, calls > 1.5 || s.use() < 0.98 || s.above > 0, "want at most 1.5, and 98%%; %d started above the limit", s.above)
}

// TestSpeed_keys has requests of 1,000 keys wait on three nodes, which share what a process may ask in a second.
func TestSpeed_keys(t *testing.T) {
	long(t)
	for _, test := range []struct {
		limit   int64
		service time.Duration
		least   float64 // of the places that are used
	}{
		{1, 5 * time.Second, 0.95}, {2, 5 * time.Second, 0.95},
		{1, time.Second, 0.7}, // six asks of a place and second are all that three nodes have for 1,000 keys
	} {
		t.Run(fmt.Sprintf("%d places, %v", test.limit, test.service), func(t *testing.T) {
			server := redistest.Start(t)
			s := newStores(t, 3, test.limit, test.service, server)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			for key := range 1000 {
				for i := range 4 * int(test.limit) {
					go s.serve(ctx, (key+i)%3, fmt.Sprint("k", key))
				}
			}
			<-time.After(3 * test.service)
			s.begin()
			runs, messages := commands(t, server, "evalsha"), commands(t, server, "hmget")
			<-time.After(30 * time.Second)
			t.Logf("%.2f%% of the places were used; %d starts, %d above the limit; %d calls in %d runs of scripts a second", 100*s.use(), s.starts, s.above,
				(commands(t, server, "hmget")-messages)/30, (commands(t, server, "evalsha")-runs)/30)
			assert.ErrorIf(t, s.use() < test.least || s.above > 0, "want %.0f%%, and none above the limit", 100*test.least)
		})
	}
}

// commands returns how often a server has run a command. A script runs HMGET once for each message.
func commands(t *testing.T, server *redistest.Server, name string) (runs int) {
	t.Helper()
	info := server.Client(t).InfoMap(t.Context(), "commandstats").Item("Commandstats", "cmdstat_"+name)
	_, err := fmt.Sscanf(info, "calls=%d", &runs)
	assert.Must(t, err)
	return runs
}
