package limiter

import (
	"encoding/binary"
	"math"
	"math/bits"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
)

// message is a batch on its way to Redis and back: the script, the keys and arguments, and the order
// of the answers. Its memory is reused; the zero value is ready.
type message struct {
	groups   []group
	policies []*Policy
	places   map[*Policy]int // of the policies above fewPolicies
	numbers  []int           // of the policies of each group, from 1
	order    []*payload      // the calls in the order of the keys
	names    []argument
	arena    []byte // memory of the names
	text     argument
	args     []any
	extra    []int64 // of one policy
	kernels  kernelSet
	node     int64      // of this process, see runningTracker
	sent     noRetryCmd // the command that was sent

	clock        *clock.Offset // of the node that it goes to; nil: not known
	asOf         int64         // Redis's time as far as known, in microseconds; 0: not asked for yet
	began, ended time.Time     // when it was sent, and answered
	redisTime    int64         // by the answer, in microseconds since the Unix epoch; 0: none
}

// now returns the time of the Redis that the message goes to, as far as known, in microseconds since the Unix
// epoch.
func (m *message) now() int64 {
	if m.asOf == 0 {
		m.asOf = time.Now().UnixMicro() //nolint:forbidigo // compared with Redis's wall clock
		if m.clock != nil {
			ahead, _ := m.clock.Ahead()
			m.asOf += ahead.Microseconds()
		}
	}
	return m.asOf
}

// group is the calls of one shape: same operation, same policies, same weights, the same left to others.
type group struct {
	calls []*payload
}

// fewPolicies is how many policies are searched one by one. A map takes longer to fill than it saves
// then.
const fewPolicies = 16

// write makes the arguments of one EVALSHA of calls. The script's text or hash is still to be set at
// index 0 and 1.
func (m *message) write(calls []*payload, keys *keyWriter) {
	m.group(calls)
	m.writeKeys(keys)
	m.text.bytes = m.text.bytes[:0]
	m.writePolicies()
	numbers := m.numbers
	for i := range m.groups {
		calls := m.groups[i].calls
		m.writeGroup(calls, numbers)
		numbers = numbers[len(calls[0].checks):]
	}
	m.args = append(m.args, &m.text)
}

// group sorts the calls by shape, keeping their order within each.
func (m *message) group(calls []*payload) {
	for i := range m.groups {
		m.groups[i].calls = m.groups[i].calls[:0]
	}
	m.groups = m.groups[:0]
next:
	for _, c := range calls {
		for i := range m.groups {
			if c.sameShape(m.groups[i].calls[0]) {
				m.groups[i].calls = append(m.groups[i].calls, c)
				continue next
			}
		}
		if len(m.groups) < cap(m.groups) {
			m.groups = m.groups[:len(m.groups)+1]
		} else {
			m.groups = append(m.groups, group{})
		}
		last := &m.groups[len(m.groups)-1]
		last.calls = append(last.calls[:0], c)
	}
}

// writeKeys writes the key of every check, in the order that the answers will have.
func (m *message) writeKeys(keys *keyWriter) {
	m.order, m.names, m.arena, m.policies, m.kernels = m.order[:0], m.names[:0], m.arena[:0], m.policies[:0], 0
	for i := range m.groups {
		m.order = append(m.order, m.groups[i].calls...)
	}
	bans := false
	for _, c := range m.order {
		for i := range c.checks {
			p := c.checks[i].Policy
			m.writeKey(keys, p.Rule().ID, c.checks[i].Key)
			bans = bans || p.Rule().Ban != nil
		}
	}
	if bans {
		m.writeBanKeys(keys)
	}
	m.args = append(m.args[:0], nil, nil, int64(len(m.names)))
	for i := range m.names {
		m.args = append(m.args, &m.names[i])
	}
}

// writeKey adds the key of a client's state.
func (m *message) writeKey(keys *keyWriter, id string, key EncodedKey) {
	start := len(m.arena)
	m.arena = keys.append(m.arena, id, key.String())
	m.names = append(m.names, argument{m.arena[start:len(m.arena):len(m.arena)]})
}

// writePolicies writes the parameters of each policy once.
func (m *message) writePolicies() {
	m.numbers = m.numbers[:0]
	clear(m.places)
	for i := range m.groups {
		shape := m.groups[i].calls[0]
		if shape.op == opLease {
			m.kernels |= leaseFragment
		}
		for j := range shape.checks {
			m.numbers = append(m.numbers, m.policyNumber(shape.checks[j].Policy))
		}
	}
	m.writeNumber(int64(len(m.policies)))
	for _, p := range m.policies {
		t := &p.Rule().Params
		for _, n := range [...]int64{m.kernels.place(p.Rule().Algorithm), t.Limit, t.Window, t.Capacity, t.MaxDelay, t.MaxDebt, t.Tick} {
			m.writeNumber(n)
		}
	}
	for _, p := range m.policies {
		if k, ok := p.Rule().Algorithm.Kernel.(kernel.Extended); ok {
			m.extra = k.Numbers(m.extra[:0], m.now(), m.node, &p.Rule().Params)
			for _, n := range m.extra {
				m.writeNumber(n)
			}
		}
	}
	if m.kernels&banFragment != 0 {
		m.writeBans()
	}
	if m.takesOnly() {
		m.kernels |= takesFragment
	}
}

// takesOnly reports whether takes.lua decides the message: takes of one check each, whose weight may pass, all of one
// kernel.
func (m *message) takesOnly() bool {
	if m.kernels&^taking != 0 || bits.OnesCount(uint(m.kernels)) != 1 {
		return false
	}
	for i := range m.groups {
		shape := m.groups[i].calls[0]
		if shape.op != opTake || len(shape.checks) != 1 {
			return false
		}
		if check := &shape.checks[0]; unitsOf(check) == 0 || neverPasses(check) {
			return false
		}
	}
	return true
}

// writeNumber appends a number, at most 2^53, as a little-endian double.
func (m *message) writeNumber(n int64) {
	m.text.bytes = binary.LittleEndian.AppendUint64(m.text.bytes, math.Float64bits(float64(n)))
}

// policyNumber returns the policy's place in the message, from 1, and adds the policy if it has
// none.
func (m *message) policyNumber(p *Policy) int {
	if number := m.placeOf(p); number > 0 {
		return number
	}
	m.policies = append(m.policies, p)
	m.kernels |= fragmentsOf(p)
	if len(m.policies) > fewPolicies {
		m.places[p] = len(m.policies)
	}
	return len(m.policies)
}

// placeOf returns the policy's place in the message, from 1; 0 where it has none.
func (m *message) placeOf(p *Policy) int {
	for i, known := range m.policies[:min(len(m.policies), fewPolicies)] {
		if known == p {
			return i + 1
		}
	}
	if len(m.policies) >= fewPolicies && m.places == nil {
		m.places = map[*Policy]int{}
	}
	return m.places[p]
}

// writeGroup writes calls of one shape, with the numbers of their checks' policies.
func (m *message) writeGroup(calls []*payload, numbers []int) {
	shape := calls[0]
	m.writeNumber(shape.op.number())
	m.writeNumber(int64(len(calls)))
	m.writeNumber(int64(len(shape.checks)))
	for i := range shape.checks {
		check := &shape.checks[i]
		if check.Reserve == 0 {
			m.writeNumber(int64(numbers[i]))
			m.writeNumber(unitsOf(check))
			continue
		}
		m.writeNumber(int64(-numbers[i]))
		m.writeNumber(unitsOf(check))
		m.writeNumber(reserveOf(check))
	}
	if shape.op.isStamped() && countsRunning(shape.checks) {
		m.writeStamps(calls)
	}
	if !shape.op.hasNumbers() {
		return
	}
	for _, c := range calls {
		shows := int64(0)
		if c.shows {
			shows = 1
		}
		for i, r := range c.receipts {
			m.writeNumber(r.First)
			m.writeNumber(r.Second)
			if c.op == opSettle {
				m.writeNumber(keptOf(&c.checks[i]).Change)
				m.writeNumber(keptOf(&c.checks[i]).Stays)
				m.writeNumber(shows)
			}
		}
	}
}

// writeStamps writes the epoch and the base of each check that counts running requests.
func (m *message) writeStamps(calls []*payload) {
	for _, c := range calls {
		for i := range c.checks {
			if c.checks[i].Policy.CountsRunning() {
				m.writeNumber(keptOf(&c.checks[i]).Receipt.First)
				m.writeNumber(keptOf(&c.checks[i]).Receipt.Second)
			}
		}
	}
}

// writeBanKeys writes the keys of bans behind those of the states, the last check first: the script
// finds the first one at the end, so that no message says how many there are.
func (m *message) writeBanKeys(keys *keyWriter) {
	for i := len(m.order) - 1; i >= 0; i-- {
		checks := m.order[i].checks
		for j := len(checks) - 1; j >= 0; j-- {
			if b := checks[j].Policy.Rule().Ban; b != nil {
				m.writeKey(keys, b.ID, checks[j].Key)
			}
		}
	}
}

// writeBans writes the bans of each policy.
func (m *message) writeBans() {
	for _, p := range m.policies {
		if p.Rule().Ban == nil {
			m.writeNumber(0)
			continue
		}
		m.writeNumber(int64(len(p.Rule().Ban.Durations)))
		m.writeNumber(p.Rule().Ban.After)
		confirms := int64(0)
		if p.Rule().Refunds.Load() {
			confirms = 1
		}
		m.writeNumber(confirms)
		for _, d := range p.Rule().Ban.Durations {
			m.writeNumber(d)
		}
	}
}

// clusterSlots is how many slots the keys of a Cluster are spread over.
const clusterSlots = 16384
