package redis_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

// schedule is one key, the nodes that run requests of it, and the network.
type schedule struct {
	t         testing.TB
	play      *assert.Play
	random    *rand.Rand
	raw       []*rawNode // one per node: sends its messages
	nodes     []*scheduledNode
	policy    *limiter.Policy
	key       string
	now       int64 // seconds
	ahead     int64 // of Redis's clock
	set       int64 // what Redis's clock was set to
	network   []*scheduledMessage
	late      []*scheduledMessage // in a socket
	answers   []*scheduledMessage
	ids       int64
	faulty    bool
	local     bool // requests that Redis does not decide run by the local rule
	backup    map[string]string
	hasBackup bool
}

// scheduledNode is a process: its tracker, and the requests that it runs.
type scheduledNode struct {
	store    *redis.Store // its tracker alone is used
	raw      *rawNode
	id       int64
	running  [][]limiter.Check
	inflight []*scheduledMessage
	cut      bool
}

// scheduledMessage is a message on its way, of a request or a statement.
type scheduledMessage struct {
	node    *scheduledNode
	message runningMessage
	checks  []limiter.Check
	run     redis.Run
	sent    int64
	wait    int64 // the answer
	again   bool  // it is a request's second
}

func newSchedule(t testing.TB, seed uint64, raw []*rawNode) *schedule {
	s := &schedule{t: t, play: assert.NewPlay(t, seed), random: rand.New(rand.NewPCG(seed, 3)), raw: raw, key: fmt.Sprint("k", seed), set: -1 << 40}
	limit := 1 + int64(seed%4)
	s.policy = storetest.NewPolicy(t, limiter.Settings{Name: "running", MaxConcurrent: limit, NodeTimeout: scheduleTimeout * time.Second})
	for i := range 2 + int(seed/4%2) {
		s.nodes = append(s.nodes, s.newNode(raw[i]))
	}
	return s
}

func (s *schedule) newNode(raw *rawNode) *scheduledNode {
	s.ids++
	n := &scheduledNode{raw: raw, id: s.ids}
	tracker := redis.NewTracker()
	tracker.Node = s.ids
	tracker.Now = func() clock.Moment { return clock.Moment(0).Add(time.Duration(s.now) * time.Second) }
	tracker.Ticks.Run = nil // the schedule decides when states leave
	tracker.Send = func(m redis.Run) {
		stamp := m.StampOf()
		s.send(&scheduledMessage{node: n, run: m, message: runningMessage{redis.OpState, stamp.Epoch, stamp.Base, m.Units}})
	}
	n.store = &redis.Store{Running: tracker, Uses: clock.NewReferences(func() {})}
	return n
}

func (s *schedule) send(m *scheduledMessage) {
	m.sent = s.now
	s.note("sends", m)
	m.node.inflight = append(m.node.inflight, m)
	switch {
	case !m.node.cut:
		s.network = append(s.network, m)
	case s.random.IntN(2) == 0:
		s.late = append(s.late, m)
	}
}

// note tells the play what a node does with a message.
func (s *schedule) note(what string, m *scheduledMessage) {
	s.play.Step("%d s: node %d %s %+v, sent at %d s; it runs %d units", s.now, m.node.id, what, m.message, m.sent, m.node.units())
}

// take begins a request, or sends it again.
func (s *schedule) take(n *scheduledNode, checks []limiter.Check, again bool) {
	n.store.Running.Begin(checks, nil)
	stamp := redis.RunOf(&checks[0]).StampOf()
	s.send(&scheduledMessage{node: n, checks: checks, again: again, message: runningMessage{redis.OpTake, stamp.Epoch, stamp.Base, checks[0].Weight}})
}

// deliver runs a message on Redis.
func (s *schedule) deliver(m *scheduledMessage) {
	if clock := storetest.Epoch + (s.now+s.ahead)*1_000_000; clock != s.set {
		assert.Must(s.t, m.node.raw.Client().Set(context.Background(), "test:clock", clock, 0).Err())
		s.set = clock
	}
	s.note("is heard by Redis with", m)
	m.node.raw.as(m.node.id)
	m.wait, _ = m.node.raw.send(s.policy, s.key, m.message)
	s.answers = append(s.answers, m)
}

// as makes the node send under an ID.
func (n *rawNode) as(id int64) {
	if n.Running.Node != id {
		n.Running.Node = id
		n.Writers = sync.Pool{New: func() any { return &redis.Writer{Keys: redis.NewKeyWriter(n.KeyFormat), Scripts: &n.Scripts, Node: id} }}
	}
}

// finish removes a message from those that its node waits for, and reports whether it was one.
func (m *scheduledMessage) finish() bool {
	i := slices.Index(m.node.inflight, m)
	if i >= 0 {
		m.node.inflight = slices.Delete(m.node.inflight, i, i+1)
	}
	return i >= 0
}

// answer passes an answer to its node.
func (s *schedule) answer(m *scheduledMessage) {
	if !m.finish() {
		return
	}
	s.note("is answered", m)
	if m.checks == nil {
		outcome := redis.RanOK
		if m.wait < 0 {
			outcome = redis.RanLate
		}
		m.node.store.Running.Finish(m.run, outcome)
		return
	}
	m.checks[0].Result = limiter.Result{RetryAfter: time.Duration(max(0, m.wait))}
	if m.checks[0].State.Late = kernel.InTime; m.wait < 0 {
		m.checks[0].State.Late = kernel.Superseded
	}
	err := m.node.store.EndTakes(m.checks, nil)
	switch {
	case err == redis.ErrLate && !m.again: //nolint:errorlint // it is returned as it is
		s.take(m.node, m.checks, true)
	case err != nil:
		s.undecided(m)
	case m.wait == 0:
		m.node.running = append(m.node.running, m.checks)
	}
}

// giveUp ends a message without an answer.
func (s *schedule) giveUp(m *scheduledMessage, reason error) {
	if !m.finish() {
		return
	}
	s.note("gives up", m)
	if m.checks == nil {
		m.node.store.Running.Finish(m.run, redis.FateOf(reason))
		return
	}
	if err := m.node.store.EndTakes(m.checks, reason); err != nil {
		s.undecided(m)
	}
}

// undecided lets a request run that Redis did not decide, where the local rule does.
func (s *schedule) undecided(m *scheduledMessage) {
	if !s.local {
		return
	}
	if m.node.units()+m.checks[0].Weight <= max(1, s.policy.Capacity()/int64(len(s.nodes))) {
		m.checks[0].State.RunningUnits = int32(m.checks[0].Weight)
		m.node.store.LetRun(m.checks)
		m.node.running = append(m.node.running, m.checks)
	}
}

// units returns how many units a node runs.
func (n *scheduledNode) units() (units int64) {
	for _, checks := range n.running {
		units += checks[0].Weight
	}
	return units
}

func (n *scheduledNode) end(i int) {
	checks := n.running[i]
	n.running = slices.Delete(n.running, i, i+1)
	n.store.EndRunning(checks)
}

// tick lets a second pass, unless a node in contact would be forgotten meanwhile.
func (s *schedule) tick() {
	if !s.faulty {
		for _, n := range s.nodes {
			if n.units() > 0 && s.expiresBy(n, s.now+1) {
				return
			}
		}
	}
	s.now++
	s.play.Step("%d s: a second has passed", s.now)
	for _, n := range s.nodes {
		for _, m := range slices.Clone(n.inflight) {
			if s.now-m.sent >= scheduleWait {
				s.giveUp(m, limiter.ErrTimeout)
			}
		}
	}
}

// expiresBy reports whether Redis forgets a node by an instant.
func (s *schedule) expiresBy(n *scheduledNode, at int64) bool {
	text, err := n.raw.Client().HGet(context.Background(), n.raw.RedisKey(s.policy, limiter.AsEncoded(s.key)), redistest.Doubles(float64(n.id))).Result()
	return err == nil && redis.Double(text, 2) <= float64(storetest.Epoch+(at+s.ahead)*1_000_000)
}

func scheduleNodes(t *testing.T) []*rawNode {
	t.Helper()
	server := redistest.Shared(t)
	var raw []*rawNode
	for range 3 {
		raw = append(raw, newRawNode(t, server))
	}
	return raw
}

// peek has Redis look at the key, as any request does: after a step of its clock.
func (n *rawNode) peek(s *schedule) {
	s.deliver(&scheduledMessage{node: &scheduledNode{raw: n, id: 1 << 40}, message: runningMessage{op: redis.OpPeek}})
	s.answers = s.answers[:len(s.answers)-1]
}

// running returns how many units run on all nodes.
func (s *schedule) running() (units int64) {
	for _, n := range s.nodes {
		units += n.units()
	}
	return units
}
