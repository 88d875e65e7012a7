// Package wire is what this module and Redis say to each other: operations and their payloads, the message of a
// batch, the reader of answers, the names of keys, the scripts and the errors. It decides what bytes mean, and sends
// none. It may import limiter, decision, kernel, internal/clock and scripts.
package wire

import (
	"encoding/binary"
	"math"
	"math/bits"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Message is a batch on its way to Redis and back: the script, the keys and arguments, and the order
// of the answers. Its memory is reused; the zero value is ready.
type Message struct {
	Groups   []group
	policies []*limiter.Policy
	places   map[*limiter.Policy]int // of the policies above fewPolicies
	numbers  []int                   // of the policies of each group, from 1
	Order    []*Payload              // the calls in the order of the keys
	names    []argument
	arena    []byte // memory of the names
	Text     argument
	args     []any
	extra    []int64 // of one policy
	Kernels  KernelSet
	node     int64      // of this process, see running.Tracker
	Sent     NoRetryCmd // the command that was sent

	clock        *clock.Offset // of the node that it goes to; nil: not known
	AsOf         int64         // Redis's time as far as known, in microseconds; 0: not asked for yet
	Began, Ended time.Time     // when it was sent, and answered
	RedisTime    int64         // by the answer, in microseconds since the Unix epoch; 0: none
}

// now returns the time of the Redis that the message goes to, as far as known, in microseconds since the Unix
// epoch.
func (m *Message) now() int64 {
	if m.AsOf == 0 {
		m.AsOf = time.Now().UnixMicro() //nolint:forbidigo // compared with Redis's wall clock
		if m.clock != nil {
			ahead, _ := m.clock.Ahead()
			m.AsOf += ahead.Microseconds()
		}
	}
	return m.AsOf
}

// group is the calls of one shape: same operation, same policies, same weights, the same left to others.
type group struct {
	calls []*Payload
}

// fewPolicies is how many policies are searched one by one. A map takes longer to fill than it saves
// then.
const fewPolicies = 16

// Write makes the arguments of one EVALSHA of calls. The script's text or hash is still to be set at
// index 0 and 1.
func (m *Message) Write(calls []*Payload, keys *KeyWriter) {
	m.group(calls)
	m.writeKeys(keys)
	m.Text.Bytes = m.Text.Bytes[:0]
	m.writePolicies()
	numbers := m.numbers
	for i := range m.Groups {
		calls := m.Groups[i].calls
		m.writeGroup(calls, numbers)
		numbers = numbers[len(calls[0].Checks):]
	}
	m.args = append(m.args, &m.Text)
}

// group sorts the calls by shape, keeping their order within each.
func (m *Message) group(calls []*Payload) {
	for i := range m.Groups {
		m.Groups[i].calls = m.Groups[i].calls[:0]
	}
	m.Groups = m.Groups[:0]
next:
	for _, c := range calls {
		for i := range m.Groups {
			if c.sameShape(m.Groups[i].calls[0]) {
				m.Groups[i].calls = append(m.Groups[i].calls, c)
				continue next
			}
		}
		if len(m.Groups) < cap(m.Groups) {
			m.Groups = m.Groups[:len(m.Groups)+1]
		} else {
			m.Groups = append(m.Groups, group{})
		}
		last := &m.Groups[len(m.Groups)-1]
		last.calls = append(last.calls[:0], c)
	}
}

// writeKeys writes the key of every check, in the order that the answers will have.
func (m *Message) writeKeys(keys *KeyWriter) {
	m.Order, m.names, m.arena, m.policies, m.Kernels = m.Order[:0], m.names[:0], m.arena[:0], m.policies[:0], 0
	for i := range m.Groups {
		m.Order = append(m.Order, m.Groups[i].calls...)
	}
	bans := false
	for _, c := range m.Order {
		for i := range c.Checks {
			p := c.Checks[i].Policy
			m.writeKey(keys, p.ID, c.Checks[i].Key)
			bans = bans || p.Ban != nil
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
func (m *Message) writeKey(keys *KeyWriter, id string, key limiter.EncodedKey) {
	start := len(m.arena)
	m.arena = keys.Append(m.arena, id, key.String())
	m.names = append(m.names, argument{m.arena[start:len(m.arena):len(m.arena)]})
}

// writePolicies writes the parameters of each policy once.
func (m *Message) writePolicies() {
	m.numbers = m.numbers[:0]
	clear(m.places)
	for i := range m.Groups {
		shape := m.Groups[i].calls[0]
		if shape.Op == OpLease {
			m.Kernels |= leaseFragment
		}
		for j := range shape.Checks {
			m.numbers = append(m.numbers, m.policyNumber(shape.Checks[j].Policy))
		}
	}
	m.WriteNumber(int64(len(m.policies)))
	for _, p := range m.policies {
		t := &p.Params
		for _, n := range [...]int64{m.Kernels.place(p.Algorithm), t.Limit, t.Window, t.Capacity, t.MaxDelay, t.MaxDebt, t.Tick} {
			m.WriteNumber(n)
		}
	}
	for _, p := range m.policies {
		if numbers := p.Algorithm.Numbers; numbers != nil {
			m.extra = numbers(m.extra[:0], m.now(), m.node, &p.Params)
			for _, n := range m.extra {
				m.WriteNumber(n)
			}
		}
	}
	if m.Kernels&banFragment != 0 {
		m.writeBans()
	}
	if m.takesOnly() {
		m.Kernels |= TakesFragment
	}
}

// takesOnly reports whether takes.lua decides the message: takes of one check each, whose weight may pass, and what a
// node states of requests that run, all of one kernel.
func (m *Message) takesOnly() bool {
	if m.Kernels&^fragments.taking != 0 || bits.OnesCount(uint(m.Kernels)) != 1 {
		return false
	}
	for i := range m.Groups {
		shape := m.Groups[i].calls[0]
		if shape.Op == OpRelease || shape.Op == OpState {
			continue
		}
		if shape.Op != OpTake || len(shape.Checks) != 1 {
			return false
		}
		if check := &shape.Checks[0]; limiter.Units(check) == 0 || limiter.NeverPasses(check) {
			return false
		}
	}
	return true
}

// WriteNumber appends a number, at most 2^53, as a little-endian double.
func (m *Message) WriteNumber(n int64) {
	m.Text.Bytes = binary.LittleEndian.AppendUint64(m.Text.Bytes, math.Float64bits(float64(n)))
}

// policyNumber returns the policy's index in the message, from 1, and adds the policy if it has
// none.
func (m *Message) policyNumber(p *limiter.Policy) int {
	if number := m.indexOf(p); number > 0 {
		return number
	}
	m.policies = append(m.policies, p)
	m.Kernels |= FragmentsOf(p)
	if len(m.policies) > fewPolicies {
		m.places[p] = len(m.policies)
	}
	return len(m.policies)
}

// indexOf returns the policy's index in the message, from 1; 0 where it has none.
func (m *Message) indexOf(p *limiter.Policy) int {
	for i, known := range m.policies[:min(len(m.policies), fewPolicies)] {
		if known == p {
			return i + 1
		}
	}
	if len(m.policies) >= fewPolicies && m.places == nil {
		m.places = map[*limiter.Policy]int{}
	}
	return m.places[p]
}

// writeGroup writes calls of one shape, with the numbers of their checks' policies.
func (m *Message) writeGroup(calls []*Payload, numbers []int) {
	shape := calls[0]
	m.WriteNumber(operations[shape.Op].number)
	m.WriteNumber(int64(len(calls)))
	m.WriteNumber(int64(len(shape.Checks)))
	for i := range shape.Checks {
		check := &shape.Checks[i]
		if check.Reserve == 0 {
			m.WriteNumber(int64(numbers[i]))
			m.WriteNumber(limiter.Units(check))
			continue
		}
		m.WriteNumber(int64(-numbers[i]))
		m.WriteNumber(limiter.Units(check))
		m.WriteNumber(limiter.Reserve(check))
	}
	if operations[shape.Op].stamped && limiter.CountsRunning(shape.Checks) {
		m.writeStamps(calls)
	}
	if write := operations[shape.Op].write; write != nil {
		for _, c := range calls {
			write(m, c)
		}
	}
}

// writeBanKeys writes the keys of bans behind those of the states, the last check first: the script
// finds the first one at the end, so that no message says how many there are.
func (m *Message) writeBanKeys(keys *KeyWriter) {
	for i := len(m.Order) - 1; i >= 0; i-- {
		checks := m.Order[i].Checks
		for j := len(checks) - 1; j >= 0; j-- {
			if b := checks[j].Policy.Ban; b != nil {
				m.writeKey(keys, b.ID, checks[j].Key)
			}
		}
	}
}

// writeBans writes the bans of each policy.
func (m *Message) writeBans() {
	for _, p := range m.policies {
		if p.Ban == nil {
			m.WriteNumber(0)
			continue
		}
		m.WriteNumber(int64(len(p.Ban.Durations)))
		m.WriteNumber(p.Ban.After)
		confirms := int64(0)
		if p.Refunds {
			confirms = 1
		}
		m.WriteNumber(confirms)
		for _, d := range p.Ban.Durations {
			m.WriteNumber(d)
		}
	}
}
