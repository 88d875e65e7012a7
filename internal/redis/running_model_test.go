package redis_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// runningModel is the Go twin of scripts/concurrency.lua: what Redis has of one key.
type runningModel struct {
	limit, timeout int64
	entries        map[int64]runningEntry // by node
}

type runningEntry struct{ epoch, count, expiry int64 }

// runningMessage is what a node sends.
type runningMessage struct {
	op          redis.Operation
	epoch, base int64
	units       int64
}

// The waits by which the model says that a message came too late.
const superseded, lost = -4, -5

// StampOf implements [redis.Stamped].
func (m runningMessage) StampOf() redis.Stamp { return redis.Stamp{Epoch: m.epoch, Base: m.base} }

// run runs a message at an instant and returns the wait and what remains.
func (m *runningModel) run(now, node int64, msg runningMessage) (wait, remaining int64) {
	for id, e := range m.entries {
		e.expiry = min(e.expiry, now+m.timeout)
		if m.entries[id] = e; e.expiry <= now {
			delete(m.entries, id)
		}
	}
	total := int64(0)
	for _, e := range m.entries {
		total += e.count
	}
	own, known := m.entries[node]
	left := func(total int64) int64 { return max(0, m.limit-total) }
	switch {
	case msg.op == redis.OpPeek:
		return 0, left(total)
	case known && msg.epoch < own.epoch:
		return superseded, left(total)
	case known && msg.epoch == own.epoch:
	case msg.base < 0:
		return lost, left(total)
	default:
		total += msg.base - own.count
		own.count = msg.base
	}
	if msg.op == redis.OpTake {
		if total+msg.units > m.limit {
			return kernel.RunningHint, left(total)
		}
		own.count += msg.units
		total += msg.units
	} else {
		released := min(msg.units, own.count)
		own.count -= released
		total -= released
	}
	if own.count == 0 && msg.base == redis.NothingLeft {
		delete(m.entries, node)
	} else {
		m.entries[node] = runningEntry{msg.epoch, own.count, now + m.timeout}
	}
	return 0, left(total)
}

// rawNode sends messages as they are.
type rawNode struct {
	*redis.Store
	t testing.TB
}

func newRawNode(t testing.TB, server *redistest.Server) *rawNode {
	t.Helper()
	r := stores.OpenWithin(t, server, stores.Patience, limiter.KeyFormat{Prefix: "t"})
	r.Scripts.Clock = stores.TestClock
	return &rawNode{r, t}
}

// runningAnswer is what a message is answered with, and its place in the batch.
type runningAnswer struct {
	wait, remaining int64
	turn            int32
}

// send runs a message and returns its answer.
func (n *rawNode) send(p *limiter.Policy, key string, msg runningMessage) (wait, remaining int64) {
	n.t.Helper()
	a := n.sendAll(p, key, msg)[0]
	return a.wait, a.remaining
}

// sendAll runs messages in one batch and returns their answers.
func (n *rawNode) sendAll(p *limiter.Policy, key string, messages ...runningMessage) (answers []runningAnswer) {
	n.t.Helper()
	calls := make([]*redis.Call, len(messages))
	for i, msg := range messages {
		check := limiter.Check{Policy: p, Key: limiter.EncodeKey(key), Weight: msg.units, Peek: msg.units == 0, State: limiter.CheckState{Owner: msg}}
		calls[i] = redis.NewCall(msg.op, []limiter.Check{check})
	}
	n.Send(context.Background(), n.Topology.AnyNode, calls)
	for _, c := range calls {
		assert.FatalIf(n.t, c.Err != nil, "%+v", c.Err)
		kept, result := &c.Checks[0].State, c.Checks[0].Result
		answer := runningAnswer{result.RetryAfter.Microseconds(), result.Remaining, kept.Turn}
		switch kept.Late {
		case kernel.Superseded:
			answer.wait = superseded
		case kernel.Lost:
			answer.wait = lost
		}
		answers = append(answers, answer)
	}
	return answers
}

// checkStored holds what Redis has of a key equal to a model.
func (n *rawNode) checkStored(p *limiter.Policy, key string, m *runningModel) {
	n.t.Helper()
	fields, err := n.Client().HGetAll(context.Background(), n.RedisKey(p, limiter.EncodeKey(key))).Result()
	assert.Must(n.t, err)
	head, total := fields["all"], int64(0)
	for id, e := range m.entries {
		total += e.count
		if len(head) == 40 && (redis.Double(head, 2) > float64(e.expiry) || redis.Double(head, 3) < float64(e.expiry)) {
			n.t.Fatalf("Redis has %x, the model %+v", head, e)
		}
		text := fields[redistest.Doubles(float64(id))]
		if len(text) != 24 || redis.Double(text, 0) != float64(e.epoch) || redis.Double(text, 1) != float64(e.count) || redis.Double(text, 2) != float64(e.expiry) {
			n.t.Fatalf("Redis has %x, the model %+v", text, e)
		}
	}
	switch {
	case len(m.entries) == 0 && len(fields) == 0:
	case len(head) != 40, len(fields) != len(m.entries)+1, redis.Double(head, 0) != float64(total), redis.Double(head, 1) != float64(len(m.entries)):
		n.t.Fatalf("Redis has %d fields and %x, the model %+v", len(fields), head, m.entries)
	}
}

// TestConcurrency_vectors plays published traces on both twins: limit and units, a timeout of 15 s.
func TestConcurrency_vectors(t *testing.T) {
	concurrencyVectorsHold(t, redistest.Shared(t))
}

func concurrencyVectorsHold(t *testing.T, server *redistest.Server) {
	t.Helper()
	const second = 1_000_000
	client := server.Client(t)
	a, b := newRawNode(t, server), newRawNode(t, server)
	take, release, state, peek := redis.OpTake, redis.OpState, redis.OpState, redis.OpPeek
	type step struct {
		at        int64 // seconds
		by        *rawNode
		message   runningMessage
		wait      int64 // kernel.RunningHint: denied
		remaining int64
	}
	const denied = kernel.RunningHint
	for number, v := range []struct {
		limit int64
		steps []step
	}{
		{2, []step{
			{0, a, runningMessage{take, 1, 0, 1}, 0, 1},
			{0, b, runningMessage{take, 1, 0, 1}, 0, 0},
			{0, a, runningMessage{take, 1, redis.NoBase, 1}, denied, 0},
			{0, b, runningMessage{release, 1, redis.NothingLeft, 1}, 0, 1},
			{0, a, runningMessage{take, 1, redis.NoBase, 1}, 0, 0},
		}},
		{2, []step{
			{0, a, runningMessage{state, 2, 0, 0}, 0, 2},
			{0, a, runningMessage{take, 1, 0, 1}, superseded, 2},
		}},
		{2, []step{
			{0, a, runningMessage{take, 2, 1, 1}, 0, 0},
			{0, a, runningMessage{state, 2, 1, 0}, 0, 0},
		}},
		{2, []step{
			{0, b, runningMessage{take, 1, 0, 1}, 0, 1},
			{0, a, runningMessage{take, 1, 0, 2}, denied, 1},
			{0, a, runningMessage{state, 2, 2, 0}, 0, 0},
			{0, a, runningMessage{release, 2, redis.NoBase, 2}, 0, 1},
			{0, b, runningMessage{take, 1, redis.NoBase, 1}, 0, 0},
		}},
		{2, []step{
			{0, a, runningMessage{state, 2, 0, 0}, 0, 2},
			{16, a, runningMessage{take, 1, 0, 1}, 0, 1},
			{17, b, runningMessage{take, 1, 0, 2}, denied, 1},
			{31, b, runningMessage{take, 1, 0, 2}, 0, 0},
		}},
		{20, []step{
			{0, a, runningMessage{take, 3, redis.NoBase, 1}, lost, 20},
			{0, a, runningMessage{take, 4, 7, 1}, 0, 12},
			{0, a, runningMessage{state, 4, 7, 0}, 0, 12},
		}},
		{4, []step{
			{0, b, runningMessage{take, 1, 0, 2}, 0, 2},
			{0, a, runningMessage{state, 1, 3, 0}, 0, 0},
			{0, b, runningMessage{release, 1, redis.NoBase, 1}, 0, 0},
			{0, b, runningMessage{take, 1, redis.NoBase, 1}, denied, 0},
			{0, b, runningMessage{peek, 0, 0, 0}, 0, 0},
		}},
		{1, []step{
			{0, a, runningMessage{take, 1, 0, 1}, 0, 0},
			{0, a, runningMessage{take, 2, 0, 1}, 0, 0},
			{0, a, runningMessage{release, 1, redis.NothingLeft, 1}, superseded, 0},
			{0, b, runningMessage{take, 1, 0, 1}, denied, 0},
		}},
	} {
		client.FlushDB(context.Background())
		p := storetest.ConcurrencyPolicy(t, v.limit)
		model := &runningModel{v.limit, 15 * second, map[int64]runningEntry{}}
		for i, s := range v.steps {
			now := storetest.Epoch + s.at*second
			client.Set(context.Background(), "test:clock", now, 0)
			for twin, answer := range map[string]func() (int64, int64){
				"Lua": func() (int64, int64) { return s.by.send(p, "k", s.message) },
				"Go":  func() (int64, int64) { return model.run(now, s.by.Running.Node, s.message) },
			} {
				if wait, remaining := answer(); wait != s.wait || remaining != s.remaining {
					t.Errorf("vector %d, step %d, %s: wait %d, remaining %d; want %d, %d", number+1, i+1, twin, wait, remaining, s.wait, s.remaining)
				}
			}
			a.checkStored(p, "k", model)
		}
	}
}

// randomMessage makes up a message about the latest epochs.
func randomMessage(random *rand.Rand, latest, limit int64) runningMessage {
	msg := runningMessage{op: redis.OpTake, epoch: latest - random.Int64N(min(latest, 3)), base: random.Int64N(4) - 1, units: min(1+random.Int64N(2), limit)}
	switch random.IntN(6) {
	case 0:
		msg.op, msg.units = redis.OpState, 0
	case 1:
		msg = runningMessage{op: redis.OpPeek}
	case 2:
		msg.op = redis.OpState
	case 3:
		msg.op, msg.base = redis.OpState, redis.NothingLeft
	}
	return msg
}

// TestConcurrency_twins_agree sends random messages of several nodes under a clock that steps in both
// directions.
func TestConcurrency_twins_agree(t *testing.T) {
	t.Parallel()
	concurrencyTwinsAgree(t, redistest.Shared(t))
}

func concurrencyTwinsAgree(t *testing.T, server *redistest.Server) {
	t.Helper()
	const second, steps = 1_000_000, 250
	client := server.Client(t)
	nodes := []*rawNode{newRawNode(t, server), newRawNode(t, server), newRawNode(t, server)}
	nodes[2].Scripts.Always = true
	for seed := range assert.Seeds(30, 400) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			client.FlushDB(context.Background())
			random, play := rand.New(rand.NewPCG(seed, 1)), assert.NewPlay(t, seed)
			limit := 1 + random.Int64N(6)
			p := storetest.ConcurrencyPolicy(t, limit)
			model := &runningModel{limit, 15 * second, map[int64]runningEntry{}}
			now, latest := storetest.Epoch, int64(1)
			for range steps {
				switch random.IntN(12) {
				case 0:
					now += random.Int64N(20 * second)
				case 1:
					now -= random.Int64N(20 * second)
				default:
					now += random.Int64N(second)
				}
				client.Set(context.Background(), "test:clock", now, 0)
				n := nodes[random.IntN(len(nodes))]
				n.t = t
				messages := make([]runningMessage, 1+random.IntN(4))
				for i := range messages {
					latest += random.Int64N(2)
					messages[i] = randomMessage(random, latest, limit)
				}
				play.Step("epoch%+d node %d sends %+v", now-storetest.Epoch, n.Running.Node, messages)
				answers := n.sendAll(p, "k", messages...)
				for turn := range messages {
					i := slices.IndexFunc(answers, func(a runningAnswer) bool { return a.turn == int32(turn+1) })
					wait, remaining := model.run(now, n.Running.Node, messages[i])
					if a := answers[i]; a.wait != wait || a.remaining != remaining {
						t.Fatalf("%+v, message %d: Redis answers %+v, the model %d, %d", messages, i, a, wait, remaining)
					}
				}
				if slices.ContainsFunc(messages, func(m runningMessage) bool { return m.op != redis.OpPeek }) {
					n.checkStored(p, "k", model)
				}
			}
		})
	}
}
