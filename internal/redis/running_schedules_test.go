package redis_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

// This file plays the nodes' own code against a real Redis. A network between them delays messages and
// answers, reorders, loses and repeats none; nodes crash. With faults Redis also loses its data, returns
// to older data, its clock steps, and nodes lose contact. Time is the test's.

// schedules is how many schedules are played of each kind.
func schedules() iter.Seq[uint64] { return assert.Seeds(250, 20_000) }

const (
	scheduleSteps   = 70
	scheduleTimeout = 12 // seconds: the node timeout
	scheduleWait    = 2  // seconds until a message counts as unanswered
)

// remove takes a random message out of a list.
func (s *schedule) remove(list *[]*scheduledMessage) *scheduledMessage {
	if len(*list) == 0 {
		return nil
	}
	i := s.random.IntN(len(*list))
	m := (*list)[i]
	*list = slices.Delete(*list, i, i+1)
	return m
}

func (s *schedule) step() {
	n := s.nodes[s.random.IntN(len(s.nodes))]
	switch p := s.random.IntN(100); {
	case p < 22:
		if len(n.inflight) <= 3 {
			weight := min(1+s.random.Int64N(2), s.policy.Capacity())
			s.take(n, []limiter.Check{{Policy: s.policy, Key: limiter.AsEncoded(s.key), Weight: weight}}, false)
		}
	case p < 38:
		if len(n.running) > 0 {
			n.end(s.random.IntN(len(n.running)))
		}
	case p < 66:
		if m := s.remove(&s.network); m != nil {
			s.deliver(m)
		}
	case p < 88:
		if m := s.remove(&s.answers); m != nil {
			switch s.random.IntN(40) {
			case 0: // lost, as the node notices
				s.giveUp(m, limiter.ErrTimeout)
			case 1: // lost, which the node notices by the time
			default:
				s.answer(m)
			}
		}
	case p < 92:
		s.tick()
	case p < 94:
		if m := s.remove(&s.network); m != nil {
			s.late = append(s.late, m)
		}
	case p < 96:
		if m := s.remove(&s.late); m != nil {
			s.deliver(m)
		}
	case p < 97:
		s.remove(&s.late)
	case p < 98: // it does not leave the node
		if m := s.remove(&s.network); m != nil {
			s.giveUp(m, limiter.ErrUnsent)
		}
	}
	s.serve()
}

// serve has every node send the states that are due.
func (s *schedule) serve() {
	for _, n := range s.nodes {
		n.store.Running.SendDue(redis.StatesPerSpan)
	}
}

// fault does something that Redis, a node or the network does at its worst.
func (s *schedule) fault() {
	n := s.random.IntN(len(s.nodes))
	client, name := s.raw[0].Client(), s.raw[0].RedisKey(s.policy, limiter.AsEncoded(s.key))
	ctx := context.Background()
	kind := s.random.IntN(6)
	s.play.Step("%d s: %s", s.now, []string{
		"Redis loses the key", "the key is kept", "Redis returns to the key that was kept", "Redis's clock steps",
		fmt.Sprint("node ", s.nodes[n].id, " crashes"), fmt.Sprint("contact to node ", s.nodes[n].id, " ends or begins"),
	}[kind])
	switch kind {
	case 0:
		client.Del(ctx, name)
	case 1:
		s.backup, s.hasBackup = client.HGetAll(ctx, name).Val(), true
	case 2:
		if client.Del(ctx, name); s.hasBackup && len(s.backup) > 0 {
			client.HSet(ctx, name, s.backup)
		}
	case 3:
		s.ahead += int64(s.random.IntN(16)) - 10
	case 4:
		s.nodes[n].inflight = nil
		s.nodes[n] = s.newNode(s.nodes[n].raw)
	case 5:
		s.nodes[n].cut = !s.nodes[n].cut
	}
}

// drain delivers everything, and has it answered, until the nodes send nothing more.
func (s *schedule) drain() {
	for again := true; again; again = len(s.network)+len(s.late)+len(s.answers) > 0 {
		for len(s.network) > 0 {
			s.deliver(s.remove(&s.network))
		}
		for len(s.answers) > 0 {
			s.answer(s.remove(&s.answers))
		}
		for m := s.remove(&s.late); m != nil; m = s.remove(&s.late) {
			s.deliver(m)
		}
		s.serve()
	}
}

// checkCounts holds what Redis counts of each node equal to what runs there.
func (s *schedule) checkCounts(when string) {
	s.t.Helper()
	fields := s.raw[0].Client().HGetAll(context.Background(), s.raw[0].RedisKey(s.policy, limiter.AsEncoded(s.key))).Val()
	total, now := int64(0), float64(storetest.Epoch+(s.now+s.ahead)*1_000_000)
	for field, text := range fields {
		if field != "all" && redis.Double(text, 2) > now {
			total += int64(redis.Double(text, 1))
		}
	}
	for _, n := range s.nodes {
		counted := int64(0)
		if text := fields[redistest.Doubles(float64(n.id))]; text != "" && redis.Double(text, 2) > now {
			counted = int64(redis.Double(text, 1))
		}
		assert.FatalIf(s.t, counted != n.units(), "%s node %d runs %d, Redis counts %d", when, n.id, n.units(), counted)
	}
	assert.FatalIf(s.t, total != s.running(), "%s %d run, Redis counts %d", when, s.running(), total)
}

// TestConcurrency_schedules: never more than the limit run while nodes are in contact with Redis and
// Redis keeps its data. Once all is answered Redis counts what runs.
func TestConcurrency_schedules(t *testing.T) {
	t.Parallel()
	raw := scheduleNodes(t)
	most := int64(0)
	for seed := range schedules() {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			s := newSchedule(t, seed, raw)
			for step := range scheduleSteps {
				s.step()
				assert.FatalIf(t, s.running() > s.policy.Capacity(),
					"step %d: %d run of %d", step, s.running(), s.policy.Capacity())
				most = max(most, s.running())
			}
			s.drain()
			s.now += scheduleWait
			for _, n := range s.nodes {
				for _, m := range slices.Clone(n.inflight) {
					s.giveUp(m, limiter.ErrTimeout)
				}
			}
			s.now++ // states wait after a failure
			s.drain()
			s.checkCounts("after all was answered")
			for _, n := range s.nodes {
				for len(n.running) > 0 {
					n.end(0)
				}
			}
			s.drain()
			s.now += scheduleTimeout
			s.drain()
			for _, n := range s.nodes {
				if records := n.store.Running.Records.Load(); records != 0 || n.store.Running.Shards.Of(s.key).Due.Len() != 0 {
					t.Fatalf("nothing runs, and %d records are left", records)
				}
			}
		})
	}
	assert.ErrorIf(t, assert.AllSeeds() && most < 4, "at most %d ran at once: the schedules test nothing", most)
}

// TestConcurrency_faults: whatever happened, Redis counts what runs after the node timeout and a third
// of it.
func TestConcurrency_faults(t *testing.T) {
	t.Parallel()
	raw := scheduleNodes(t)
	for seed := range schedules() {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			s := newSchedule(t, seed, raw)
			s.key, s.faulty, s.local = "f"+s.key, true, seed%2 == 1
			for range scheduleSteps {
				if s.random.IntN(25) == 0 {
					s.fault()
				}
				s.step()
			}
			for _, n := range s.nodes {
				n.cut = false
			}
			raw[0].peek(s)
			s.drain()
			for range scheduleTimeout + scheduleTimeout/3 + 1 {
				s.tick()
				s.drain()
			}
			s.checkCounts("healed:")
		})
	}
}
