package waiting

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// This file holds scripts/waiting.lua equal to its Go twin: the kernel, and here the counts of nodes in epochs.

const (
	second  = 1_000_000
	timeout = 15 * second
	begin   = int64(1_700_000_000) * second // the time 0 of the tests

	// The waits of messages that change nothing.
	denied, superseded, lost = kernel.RunningHint, -4, -5

	testClock = "local now_us = tonumber(redis.call('GET', 'test:clock'))\nlocal grace = 3600000\n"
	stateKey  = "t:{k}:gpu:w15s"
)

// message is what a node sends: a take, or a state with the units that it releases.
type message struct {
	node, epoch, base, units int64
	release                  bool
	turn                     *kernel.Turn // nil: the request does not wait
}

// reply is what a message is answered with.
type reply struct{ wait, remaining, turnAge, foreign int64 }

// twin is the Go twin of the script.
type twin struct {
	limit   int64
	entries map[int64]entry // by node
	turns   turns
}

type entry struct{ epoch, count, expiry int64 }

func newTwin(limit int64) *twin { return &twin{limit: limit, entries: map[int64]entry{}} }

func (w *twin) run(now int64, m message) reply {
	total := int64(0)
	for id, e := range w.entries {
		e.expiry = min(e.expiry, now+timeout)
		if w.entries[id] = e; e.expiry <= now {
			delete(w.entries, id)
			continue
		}
		total += e.count
	}
	hint := func(total int64) int64 { return min(total, 1) * kernel.RunningHint }
	own, known := w.entries[m.node]
	switch {
	case known && m.epoch < own.epoch:
		return reply{superseded, max(0, w.limit-total), hint(total), 0}
	case known && m.epoch == own.epoch:
	case m.base < 0:
		return reply{lost, max(0, w.limit-total), hint(total), 0}
	default:
		total += m.base - own.count
		own.count = m.base
	}
	var r reply
	if m.release {
		released := min(m.units, own.count)
		own.count, total = own.count-released, total-released
	} else {
		v := w.turns.decide(now, w.limit, total, m.units, m.node, m.turn)
		r.turnAge, r.foreign = v.turnAge, v.foreign
		if !v.granted {
			r.wait, r.remaining = denied, max(0, w.limit-total)
			if m.turn == nil {
				r.turnAge = hint(total)
			}
			return r
		}
		own.count, total = own.count+m.units, total+m.units
	}
	if own.count == 0 && m.base == redis.NothingLeft {
		delete(w.entries, m.node)
	} else {
		w.entries[m.node] = entry{m.epoch, own.count, now + timeout}
	}
	if r.remaining = max(0, w.limit-total); m.turn == nil {
		r.turnAge = hint(total)
	}
	return r
}

// server runs the script on one key.
type server struct {
	t      testing.TB
	client *goredis.Client
	script *goredis.Script
	limit  int64
}

func newServer(t testing.TB, s *redistest.Server, limit int64) *server {
	t.Helper()
	policy := &limiter.Policy{Terms: kernel.Terms{Algorithm: &kernel.WaitingAlgorithm}}
	script := assert.NoError((&redis.ScriptSet{Clock: testClock}).Get(redis.FragmentsOf(policy)))(t)
	return &server{t, s.Client(t), goredis.NewScript(script.Text), limit}
}

// run sends messages of one node in one run of the script.
func (s *server) run(now int64, messages ...message) (replies []reply) {
	s.t.Helper()
	assert.Must(s.t, s.client.Set(s.t.Context(), "test:clock", now, 0).Err())
	numbers := []int64{1, 1, s.limit, timeout, s.limit, kernel.NoQueue, 0, 1, messages[0].node}
	keys := make([]string, len(messages))
	for i, m := range messages {
		operation := redis.OpTake
		if m.release {
			operation = redis.OpState
		}
		numbers = append(numbers, int64(operation), 1, 1, 1, m.units, m.epoch, m.base)
		if m.turn == nil {
			numbers = append(numbers, -1)
		} else {
			numbers = append(numbers, m.turn.Age, m.turn.Claim, m.turn.Slot, m.turn.LastSlot, m.turn.LastAge)
		}
		keys[i] = stateKey
	}
	var text []byte
	for _, n := range numbers {
		text = binary.LittleEndian.AppendUint64(text, math.Float64bits(float64(n)))
	}
	answer, err := s.script.Run(s.t.Context(), s.client, keys, text).Text()
	assert.FatalIf(s.t, err != nil || len(answer) != 8+32*len(messages), "the script answers %x: %v", answer, err)
	for i := range messages {
		at := func(n int) int64 { return int64(double(answer[8+32*i+8*n:])) }
		replies = append(replies, reply{at(0), at(1), at(2), at(3)})
	}
	return replies
}

func double(text string) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64([]byte(text[:8])))
}

func doubles(numbers ...int64) string {
	var text []byte
	for _, n := range numbers {
		text = binary.LittleEndian.AppendUint64(text, math.Float64bits(float64(n)))
	}
	return string(text)
}

// checkStored holds what the server has equal to the twin.
func (s *server) checkStored(w *twin) {
	s.t.Helper()
	fields := assert.NoError(s.client.HGetAll(s.t.Context(), stateKey).Result())(s.t)
	want := map[string]string{}
	total := int64(0)
	for id, e := range w.entries {
		want[doubles(id)] = doubles(e.epoch, e.count, e.expiry)
		total += e.count
	}
	for slot, at := range w.turns.Turns {
		want["t"+strconv.FormatInt(slot, 10)] = doubles(at)
	}
	if c := w.turns.Claim; c.Units > 0 {
		want["next"] = doubles(c.Turn, c.Node, c.Units, c.Ends)
	}
	head := fields["all"]
	delete(fields, "all")
	assert.FatalIf(s.t, len(head) != 40 != (len(w.entries) == 0), "the head is %x, with %d nodes", head, len(w.entries))
	if len(head) == 40 {
		assert.FatalIf(s.t, head[:16] != doubles(total, int64(len(w.entries))), "the head is %x, want %d of %d", head, total, len(w.entries))
	}
	assert.Equal(s.t, fields, want, "what is stored")
}

// both runs a message on the server and the twin, which answer the same.
func both(t testing.TB, s *server, w *twin, now int64, m message) reply {
	t.Helper()
	got, want := s.run(now, m)[0], w.run(now, m)
	assert.FatalIf(t, got != want, "to %+v, %+v, at %d Redis answers %+v, the twin %+v", m, m.turn, now-begin, got, want)
	s.checkStored(w)
	return got
}

// waitsFor is the turn of a request whose turn has an age, in the order of arrival.
func waitsFor(age float64) *kernel.Turn { return ofValue(age, kernel.NoSlot) }

// ofValue is the same of a value in a slot.
func ofValue(age float64, slot int64) *kernel.Turn {
	return &kernel.Turn{Age: int64(age * second), Claim: 250_000, Slot: slot, LastSlot: kernel.NoSlot}
}

// after has a turn tell of the last start on its node.
func after(t *kernel.Turn, slot int64, age float64) *kernel.Turn {
	t.LastSlot, t.LastAge = slot, int64(age*second)
	return t
}

// vector is a trace: what happens when, and what is answered.
type vector struct {
	name  string
	limit int64
	steps []step
}

type step struct {
	at       float64 // seconds
	message  message
	wait     int64
	turn     float64 // the age that is answered, in seconds; 0: not compared
	foreign  float64 // the same of another node's claim; below 0: there is none
	claimant int64   // whose claim is stored afterwards; 0: none
}

const nodeA, nodeB, nodeC = 1001, 1002, 1003

func take(node, base, units int64, turn *kernel.Turn) message {
	return message{node: node, epoch: 1, base: base, units: units, turn: turn}
}

func release(node, units int64) message {
	return message{node: node, epoch: 1, base: redis.NoBase, units: units, release: true}
}

var vectors = []vector{
	{"as without waiting", 2, []step{
		{0, take(nodeA, 0, 1, nil), 0, 0, -1, 0},
		{0, take(nodeA, redis.NoBase, 1, nil), 0, 0, -1, 0},
		{0, take(nodeB, 0, 1, nil), denied, 0, -1, 0},
	}},
	{"a place goes to the older turn of another node", 2, []step{
		{0, take(nodeA, 0, 1, nil), 0, 0, -1, 0},
		{0, take(nodeA, redis.NoBase, 1, nil), 0, 0, -1, 0},
		{5, take(nodeB, 0, 1, waitsFor(4)), denied, 4, -1, nodeB},
		{5, release(nodeA, 1), 0, 0, -1, nodeB},
		{5, take(nodeA, redis.NoBase, 1, waitsFor(1)), denied, 1, 4, nodeB},
		{5, take(nodeC, 0, 1, nil), denied, 0, -1, nodeB},
		{5, take(nodeB, 0, 1, waitsFor(4)), 0, 4, -1, 0},
	}},
	{"within the slack a node keeps its places", 1, []step{
		{0, take(nodeA, 0, 1, nil), 0, 0, -1, 0},
		{5, take(nodeB, 0, 1, waitsFor(4)), denied, 4, -1, nodeB},
		{5, release(nodeA, 1), 0, 0, -1, nodeB},
		{5, take(nodeA, redis.NoBase, 1, waitsFor(3.5)), 0, 3.5, 4, nodeB},
	}},
	{"the slack is a second, to the microsecond", 1, []step{
		{0, take(nodeA, 0, 1, nil), 0, 0, -1, 0},
		{5, take(nodeB, 0, 1, waitsFor(4)), denied, 4, -1, nodeB},
		{5, release(nodeA, 1), 0, 0, -1, nodeB},
		{5, take(nodeA, redis.NoBase, 1, waitsFor(2.999999)), denied, 2.999999, 4, nodeB},
		{5, take(nodeA, redis.NoBase, 1, waitsFor(3)), 0, 3, 4, nodeB},
	}},
	{"of two free places one is the claim's", 2, []step{
		{0, take(nodeA, 0, 2, nil), 0, 0, -1, 0},
		{5, take(nodeB, 0, 1, waitsFor(4)), denied, 4, -1, nodeB},
		{5, release(nodeA, 2), 0, 0, -1, nodeB},
		{5, take(nodeA, redis.NoBase, 1, waitsFor(0)), 0, 0, 4, nodeB},
		{5, take(nodeA, redis.NoBase, 1, waitsFor(0)), denied, 0, 4, nodeB},
	}},
	{"a claim lapses", 1, []step{
		{0, take(nodeA, 0, 1, nil), 0, 0, -1, 0},
		{5, take(nodeB, 0, 1, waitsFor(4)), denied, 4, -1, nodeB},
		{5, release(nodeA, 1), 0, 0, -1, nodeB},
		{5.249999, take(nodeA, redis.NoBase, 1, waitsFor(0)), denied, 0, 4.249999, nodeB},
		{5.25, take(nodeA, redis.NoBase, 1, waitsFor(0)), 0, 0, -1, nodeB},
	}},
	{"three units gather", 3, []step{
		{0, take(nodeA, 0, 3, nil), 0, 0, -1, 0},
		{5, take(nodeB, 0, 3, waitsFor(4)), denied, 4, -1, nodeB},
		{5, release(nodeA, 1), 0, 0, -1, nodeB},
		{5, take(nodeA, redis.NoBase, 1, waitsFor(0)), denied, 0, 4, nodeB},
		{5, release(nodeA, 2), 0, 0, -1, nodeB},
		{5, take(nodeB, 0, 3, waitsFor(4)), 0, 4, -1, 0},
	}},
	{"a value's turns on two nodes go by its last start on any", 1, []step{
		{0, take(nodeA, 0, 1, ofValue(0, 7)), 0, 0, -1, 0},
		{9, release(nodeA, 1), 0, 0, -1, 0},
		{9, take(nodeA, redis.NoBase, 1, ofValue(0, 7)), 0, 0, -1, 0},
		{10, take(nodeB, 0, 1, ofValue(8, 7)), denied, 1, -1, nodeB},
		{10, take(nodeC, 0, 1, ofValue(2, 8)), denied, 2, -1, nodeC},
		{10, release(nodeA, 1), 0, 0, -1, nodeC},
		{10.1, take(nodeB, 0, 1, ofValue(8, 7)), 0, 1.1, 2.1, nodeC},
		{10.2, release(nodeB, 1), 0, 0, -1, nodeC},
		{10.2, take(nodeC, 0, 1, ofValue(2.2, 8)), 0, 2.2, -1, 0},
	}},
	{"epochs come first", 1, []step{
		{0, message{node: nodeA, epoch: 2, units: 1}, 0, 0, -1, 0},
		{0.1, take(nodeA, 0, 1, waitsFor(0)), superseded, 0, -1, 0},
		{0.1, take(nodeB, redis.NoBase, 1, waitsFor(0)), lost, 0, -1, 0},
	}},
	{"a clock that went back far drops the claim", 1, []step{
		{90, take(nodeA, 0, 1, nil), 0, 0, -1, 0},
		{100, take(nodeB, 0, 1, waitsFor(4)), denied, 4, -1, nodeB},
		{50, release(nodeA, 1), 0, 0, -1, nodeB},
		{50, take(nodeA, redis.NoBase, 1, waitsFor(0)), 0, 0, -1, nodeB},
	}},
	// What the prototype of the rule did not have.
	{"an older start that is told late moves no turn back", 1, []step{
		{0, take(nodeB, 0, 1, waitsFor(0)), 0, 0, -1, 0},
		{9, take(nodeA, 0, 1, after(ofValue(0, 8), 7, 1)), denied, 0, -1, nodeA},
		{9, take(nodeC, 0, 1, after(ofValue(0, 9), 7, 5)), denied, 0, 0.000001, nodeA},
		{9, take(nodeB, redis.NoBase, 1, ofValue(6, 7)), denied, 1, -1, nodeB},
	}},
	{"an ask without a claim leaves that of its node", 1, []step{
		{0, take(nodeA, 0, 1, nil), 0, 0, -1, 0},
		{5, take(nodeB, 0, 1, waitsFor(4)), denied, 4, -1, nodeB},
		{5, take(nodeB, 0, 1, &kernel.Turn{Age: 1, Slot: kernel.NoSlot, LastSlot: kernel.NoSlot}), denied, 0, -1, nodeB},
		{5, take(nodeC, 0, 1, waitsFor(3.999999)), denied, 3.999999, 4, nodeB},
	}},
	{"units above the limit are owed before all turns", 2, []step{
		{0, take(nodeA, 0, 2, nil), 0, 0, -1, 0},
		{5, message{node: nodeB, epoch: 1, base: 1, release: true}, 0, 0, -1, 0},
		{5, take(nodeA, redis.NoBase, 1, waitsFor(4)), denied, 4, 1_700_000_005, nodeA},
		{5, release(nodeA, 1), 0, 0, -1, nodeA},
		{5, take(nodeA, redis.NoBase, 1, waitsFor(4)), denied, 4, -1, nodeA},
	}},
	{"a claim of this very moment is told of", 1, []step{
		{0, take(nodeA, 0, 1, nil), 0, 0, -1, 0},
		{5, take(nodeB, 0, 1, waitsFor(0)), denied, 0, -1, nodeB},
		{5, take(nodeC, 0, 1, waitsFor(0)), denied, 0, 0.000001, nodeB},
	}},
}

func vectorsHold(t *testing.T, on *redistest.Server) {
	t.Helper()
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			s, w := newServer(t, on, v.limit), newTwin(v.limit)
			assert.Must(t, s.client.FlushDB(t.Context()).Err())
			for i, step := range v.steps {
				r := both(t, s, w, begin+int64(math.Round(step.at*second)), step.message)
				foreign := max(0, int64(math.Round(step.foreign*second)))
				assert.ErrorIf(t, r.wait != step.wait || r.foreign != foreign || step.turn > 0 && r.turnAge != int64(math.Round(step.turn*second)),
					"step %d: %+v, want %+v", i+1, r, step)
				assert.Equal(t, w.turns.Claim.Node, step.claimant, "step %d: the node with the claim", i+1)
			}
		})
	}
}

// TestWaiting_vectors plays traces on both twins.
func TestWaiting_vectors(t *testing.T) { vectorsHold(t, redistest.Shared(t)) }

// TestWaiting_lua54 plays them under Lua 5.4.
func TestWaiting_lua54(t *testing.T) { vectorsHold(t, redistest.StartLua54(t)) }

// randomTurn makes up what a node tells of a request.
func randomTurn(random *rand.Rand) *kernel.Turn {
	if random.IntN(5) == 0 {
		return nil
	}
	return &kernel.Turn{
		Age: random.Int64N(12 * second), Claim: random.Int64N(3) * 200_000, Slot: random.Int64N(6) - 1,
		LastSlot: random.Int64N(6) - 1, LastAge: random.Int64N(12 * second),
	}
}

// messagesText has the turns of messages too.
func messagesText(messages []message) string {
	var texts []string
	for _, m := range messages {
		turn := m.turn
		m.turn = nil
		texts = append(texts, fmt.Sprintf("%+v turn %+v", m, turn))
	}
	return strings.Join(texts, "; ")
}

func twinsAgree(t *testing.T, on *redistest.Server) {
	t.Helper()
	for seed, play := range assert.Plays(t, 30, 400) {
		random := rand.New(rand.NewPCG(seed, 1))
		limit := 1 + random.Int64N(6)
		s, w := newServer(t, on, limit), newTwin(limit)
		assert.Must(t, s.client.FlushDB(t.Context()).Err())
		now, latest := begin, int64(1)
		for range 250 {
			switch random.IntN(12) {
			case 0:
				now += random.Int64N(20 * second)
			case 1:
				now -= random.Int64N(20 * second)
			default:
				now += random.Int64N(second / 2)
			}
			messages := make([]message, 1+random.IntN(4))
			node := nodeA + random.Int64N(3)
			for i := range messages {
				latest += random.Int64N(2)
				m := message{node: node, epoch: latest - random.Int64N(min(latest, 3)), base: random.Int64N(4) - 1}
				m.units = min(1+random.Int64N(2), limit)
				switch random.IntN(5) {
				case 0:
					m.units, m.release = 0, true
				case 1:
					m.release = true
				case 2:
					m.release, m.base = true, redis.NothingLeft
				default:
					m.turn = randomTurn(random)
				}
				messages[i] = m
			}
			play.Step("begin%+d %s", now-begin, messagesText(messages))
			for i, got := range s.run(now, messages...) {
				differ := assert.Differ(got, w.run(now, messages[i]))
				assert.FatalIf(t, differ != "", "to %s Redis answers not as the twin: %s", messagesText(messages[i:i+1]), differ)
			}
			s.checkStored(w)
		}
	}
}

// TestWaiting_twins_agree sends random messages of three nodes under a clock that steps in both directions.
func TestWaiting_twins_agree(t *testing.T) {
	t.Parallel()
	twinsAgree(t, redistest.Shared(t))
}

// TestWaiting_twins_agree_lua54 does the same under Lua 5.4.
func TestWaiting_twins_agree_lua54(t *testing.T) {
	t.Parallel()
	twinsAgree(t, redistest.StartLua54(t))
}

// TestWaiting_foreign has a stored value that is none of this module fail the request of its key alone.
func TestWaiting_foreign(t *testing.T) {
	for field, value := range map[string]string{
		"all": "x", "next": doubles(1, 2, 3), "t7": doubles(-1), doubles(nodeA): doubles(1, 2, 3),
	} {
		s := newServer(t, redistest.Shared(t), 1)
		assert.Must(t, s.client.HSet(t.Context(), stateKey, field, value).Err())
		assert.Must(t, s.client.Set(t.Context(), "test:clock", begin, 0).Err())
		text := doubles(1, 1, 1, timeout, 1, -1, 0, 1, nodeA, 1, 1, 1, 1, 1, 1, 0, 0, 1, 7, -1, 0)
		answer, err := s.script.Run(t.Context(), s.client, []string{stateKey}, text).Slice()
		assert.ErrorIf(t, err != nil || len(answer) != 3 || !strings.Contains(fmt.Sprint(answer[2]), "FOREIGNVALUE"),
			"with %q: %v, %v", field, answer, err)
	}
}

// TestWaiting_memory measures what a key takes, and holds the bounds that the design counts with.
func TestWaiting_memory(t *testing.T) {
	for _, test := range []struct{ nodes, slots, most int64 }{
		{3, 0, 400}, {3, kernel.TurnSlots, 1600}, {20, 0, 1200}, {20, kernel.TurnSlots, 2200}, {80, kernel.TurnSlots, 16_000},
	} {
		s := newServer(t, redistest.Shared(t), 1000)
		size := func() int64 { return assert.NoError(s.client.MemoryUsage(t.Context(), stateKey).Result())(t) }
		for node := range test.nodes {
			s.run(begin, take(nodeA+node, 0, 1, nil))
		}
		counts := size()
		for slot := range test.slots {
			s.run(begin, message{node: nodeA, epoch: 1, units: 1, turn: ofValue(0, slot)})
		}
		slots := size()
		s.limit = 1
		s.run(begin, take(nodeB, 0, 1, waitsFor(1)))
		t.Logf("%d nodes: %d bytes, with %d slots %d, with a claim too %d", test.nodes, counts, test.slots, slots, size())
		assert.ErrorIf(t, size() > test.most, "%d nodes, %d slots and a claim take %d bytes", test.nodes, test.slots, size())
	}
}
