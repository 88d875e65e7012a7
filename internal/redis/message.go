package redis

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Writer holds what one batch needs to be written and read.
type Writer struct {
	Keys     *KeyWriter
	Scripts  *ScriptSet
	Node     int64 // of this process, which the store in Redis counts running requests by
	Messages []*Message
	Used     int        // by the current batch
	Payloads []*Payload // of the batch
}

// Message returns the next reusable message, to a Redis with that clock.
func (w *Writer) Message(clock *clock.Offset) *Message {
	if w.Used == len(w.Messages) {
		w.Messages = append(w.Messages, &Message{node: w.Node, scripts: w.Scripts})
	}
	w.Used++
	m := w.Messages[w.Used-1]
	m.clock, m.AsOf = clock, 0
	return m
}

// Message is a batch on its way to Redis and back: the script, the keys and arguments, and the order
// of the answers. Its memory is reused; the zero value is ready.
type Message struct {
	Groups   []group
	policies []*limiter.Policy
	numbers  []int      // of the policies of each group, from 1
	Order    []*Payload // the calls in the order of the keys
	names    []argument
	arena    []byte // memory of the names
	Text     argument
	args     []any
	extra    []int64         // of one policy
	kernels  KernelSet       // of a batch
	scripts  *ScriptSet      // that it chooses from
	script   *Script         // that decides it
	broken   error           // why there is none
	node     int64           // of this process
	Sent     dial.NoRetryCmd // the command that was sent

	clock        *clock.Offset // of the node that it goes to; nil: not known
	AsOf         int64         // Redis's time as far as known, in microseconds; 0: not asked for yet
	Began, Ended time.Time     // when it was sent, and answered
	RedisTime    int64         // by the answer, in microseconds since the Unix epoch; 0: none

	// Uncovered says that calendar periods of some calls are not around Redis's time, by the answer: see
	// [Payload.IsUncovered]. A node derives the periods from its own clock and what earlier answers have shown of
	// Redis's, and sends such calls once more:
	//
	//	node, 3 days ahead:   take, of the months from February to May  -> NOPERIOD, and now: January 31
	//	the same sender:      take, of the months from December to March -> decided
	//
	// A script raises the error before it changes anything of the request. The second time it is the answer:
	// Redis's clock has jumped between the two.
	Uncovered bool
}

// group is the calls of one shape: same operation, same policies, same weights, same reserves, the same looks. They share one header
// in the message.
type group struct {
	calls []*Payload
}

// argument is a key or the message's text, which go-redis takes without a copy on the heap.
type argument struct{ Bytes []byte }

// MarshalBinary implements [encoding.BinaryMarshaler] for go-redis.
func (a *argument) MarshalBinary() ([]byte, error) { return a.Bytes, nil }

// String returns the key by which go-redis finds the Cluster node.
func (a *argument) String() string { return string(a.Bytes) }

// Write makes the arguments of one EVALSHA of calls: the key of every check, in the order that the answers will have,
// and one text of numbers. The script's text or hash is still to be set at index 0 and 1.
func (m *Message) Write(calls []*Payload, keys *KeyWriter) {
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
	m.Order, m.names, m.arena = m.Order[:0], m.names[:0], m.arena[:0]
	for i := range m.Groups {
		m.Order = append(m.Order, m.Groups[i].calls...)
	}
	for _, c := range m.Order {
		for i := range c.Checks {
			start := len(m.arena)
			m.arena = keys.Append(m.arena, c.Checks[i].Policy.ID, c.Checks[i].Key.String())
			m.names = append(m.names, argument{m.arena[start:len(m.arena):len(m.arena)]})
		}
	}
	m.Text.Bytes, m.broken = m.Text.Bytes[:0], nil
	if len(m.Order) > 1 || !m.writeAlone(m.Order[0]) {
		m.writeBatch(keys)
	}
	m.args = append(m.args[:0], nil, nil, int64(len(m.names)))
	for i := range m.names {
		m.args = append(m.args, &m.names[i])
	}
	m.args = append(m.args, &m.Text)
}

// writeAlone writes the numbers of take_alone.lua where that can decide the message: one take of one check.
func (m *Message) writeAlone(take *Payload) bool {
	check := &take.Checks[0]
	p := check.Policy
	if take.Op != OpTake || p.CountsRunning || !take.isPlainTake() {
		return false
	}
	if m.script = m.scripts.Takes(FragmentsOf(p) | AloneFragment); m.script == nil {
		return false
	}
	t := &p.Params
	m.WriteNumbers(t.Limit, t.Window, t.Tick, limiter.Units(check), limiter.Reserve(check), t.Capacity, t.MaxDelay, t.MaxDebt)
	if p.Algorithm.Numbers != nil {
		m.writeNumbersOf(p)
	}
	return true
}

// writeBatch writes the numbers of batch.lua, or of takes.lua where that can decide the message.
func (m *Message) writeBatch(keys *KeyWriter) {
	m.script = m.scripts.Takes(m.writePolicies())
	if m.script == nil {
		m.script, m.broken = m.scripts.Get(m.kernels)
	}
	if m.kernels&banFragment != 0 {
		m.writeBanKeys(keys)
	}
	numbers := m.numbers
	for i := range m.Groups {
		calls := m.Groups[i].calls
		m.writeGroup(calls, numbers)
		numbers = numbers[len(calls[0].Checks):]
	}
}

// isPlainTake reports whether a take has one check, no look, whose weight may pass.
func (p *Payload) isPlainTake() bool {
	check := &p.Checks[0]
	return len(p.Checks) == 1 && !check.Peek && !check.Look && !limiter.NeverPasses(check)
}

// writePolicies writes the parameters of each policy once. It returns the script of takes that the message needs: of requests
// with as many checks as [scripts.HasTakes] has it; 0 where the message has more than takes, and what a node states of requests
// that run.
func (m *Message) writePolicies() (takes KernelSet) {
	m.policies, m.numbers, m.kernels = m.policies[:0], m.numbers[:0], 0
	plain, takesOnly, most := true, true, 1
	for i := range m.Groups {
		shape := m.Groups[i].calls[0]
		if shape.Op&Ahead != 0 {
			m.kernels |= leaseFragment
		}
		takesOnly = takesOnly && (shape.Op == OpTake || shape.Op == OpState)
		plain, most = plain && (shape.Op != OpTake || shape.isPlainTake()), max(most, len(shape.Checks))
		for j := range shape.Checks {
			p := shape.Checks[j].Policy
			number := 1 + slices.Index(m.policies, p)
			if number == 0 {
				m.policies = append(m.policies, p)
				number = len(m.policies)
				m.kernels |= FragmentsOf(p)
			}
			m.numbers = append(m.numbers, number)
		}
	}
	if takesOnly {
		takes = takesOf(m.kernels, plain, most)
	}
	m.WriteNumbers(int64(len(m.policies)))
	for _, p := range m.policies {
		t, before := &p.Params, m.kernels&(kernelSets[p.Algorithm]-1)
		place := int64(bits.OnesCount(uint(before))) + 1
		m.WriteNumbers(place, t.Limit, t.Window, t.Capacity, t.MaxDelay, t.MaxDebt, t.Tick)
	}
	for _, p := range m.policies {
		if p.Algorithm.Numbers != nil {
			m.writeNumbersOf(p)
		}
	}
	if m.kernels&banFragment != 0 {
		m.writeBans()
	}
	return takes
}

// writeNumbersOf writes the numbers of a policy that its kernel reads by itself.
func (m *Message) writeNumbersOf(p *limiter.Policy) {
	m.extra = p.Algorithm.Numbers(m.extra[:0], m.now(), m.node, &p.Params)
	m.WriteNumbers(m.extra...)
}

// writeGroup writes calls of one shape, with the numbers of their checks' policies.
func (m *Message) writeGroup(calls []*Payload, numbers []int) {
	shape := calls[0]
	m.WriteNumbers(int64(shape.Op), int64(len(calls)), int64(len(shape.Checks)))
	stamped := false
	for i := range shape.Checks {
		check := &shape.Checks[i]
		stamped = stamped || check.Policy.CountsRunning
		weight, reserve := limiter.Units(check), limiter.Reserve(check)
		if check.Look {
			weight, reserve = aLook*weight, limiter.NetReserve(check)
		}
		if reserve == 0 {
			m.WriteNumbers(int64(numbers[i]), weight)
			continue
		}
		m.WriteNumbers(withReserve*int64(numbers[i]), weight, reserve)
	}
	switch shape.Op & operationBits {
	case OpTake, OpState:
		if stamped {
			m.writeStamps(calls)
		}
		if shape.Op&Ahead != 0 {
			m.writeAhead(calls)
		}
	case OpChange:
		m.writeChanges(calls, shape.Op&Owed != 0)
	}
}

// writeAhead writes the change that each take ahead begins with, and what it wishes.
func (m *Message) writeAhead(calls []*Payload) {
	for _, c := range calls {
		rest := &c.Changes[0]
		m.WriteNumbers(rest.Units, rest.Receipt.First, rest.Receipt.Second, c.Lease.Wish.Units, c.Lease.Wish.Lasts)
	}
}

// writeChanges writes what changes in the quota of each check.
func (m *Message) writeChanges(calls []*Payload, owed bool) {
	for _, call := range calls {
		for i := range call.Changes {
			c := &call.Changes[i]
			if owed {
				m.WriteNumbers(c.Debt.At, c.Debt.Amount)
				continue
			}
			m.WriteNumbers(c.Units, c.Receipt.First, c.Receipt.Second, c.Stays)
		}
	}
}

// writeStamps writes the epoch and the base of each check that counts running requests. Those of a probe are 0. Where
// requests may wait, the turn follows.
func (m *Message) writeStamps(calls []*Payload) {
	for _, call := range calls {
		for i := range call.Checks {
			c := &call.Checks[i]
			if !c.Policy.CountsRunning {
				continue
			}
			var stamp Stamp
			if s, ok := c.State.Owner.(Stamped); ok {
				stamp = s.StampOf()
			}
			m.WriteNumbers(stamp.Epoch, stamp.Base)
			if c.Policy.Settings.Waits {
				m.writeTurn(c)
			}
		}
	}
}

// writeTurn writes the turn of a check.
func (m *Message) writeTurn(c *limiter.Check) {
	w, waits := c.State.Owner.(Turned)
	if !waits {
		m.WriteNumbers(noTurn)
		return
	}
	turn := w.TurnOf()
	m.WriteNumbers(turn.Age, turn.Claim, turn.Slot, turn.LastSlot, turn.LastAge)
}

// WriteNumbers appends numbers, each at most 2^53, as little-endian doubles.
func (m *Message) WriteNumbers(numbers ...int64) {
	for _, n := range numbers {
		m.Text.Bytes = binary.LittleEndian.AppendUint64(m.Text.Bytes, math.Float64bits(float64(n)))
	}
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

// writeBanKeys writes the keys of bans behind those of the states, the last check first: the script
// finds the first one at the end, so that no message says how many there are.
func (m *Message) writeBanKeys(keys *KeyWriter) {
	for i := len(m.Order) - 1; i >= 0; i-- {
		checks := m.Order[i].Checks
		for j := len(checks) - 1; j >= 0; j-- {
			if b := checks[j].Policy.Ban; b != nil {
				start := len(m.arena)
				m.arena = keys.Append(m.arena, b.ID, checks[j].Key.String())
				m.names = append(m.names, argument{m.arena[start:len(m.arena):len(m.arena)]})
			}
		}
	}
}

// writeBans writes the bans of each policy.
func (m *Message) writeBans() {
	for _, p := range m.policies {
		if p.Ban == nil {
			m.WriteNumbers(0)
			continue
		}
		confirms := int64(0)
		if p.Refunds {
			confirms = 1
		}
		m.WriteNumbers(int64(len(p.Ban.Durations)), p.Ban.After, confirms)
		m.WriteNumbers(p.Ban.Durations...)
	}
}

// Process sends a message by one command.
func (m *Message) Process(ctx context.Context, client goredis.UniversalClient, name, script string) error {
	m.Command(name, script)
	m.Began = time.Now()
	err := client.Process(ctx, m.Sent)
	m.Ended = time.Now()
	return err
}

// Command makes the command of a message.
func (m *Message) Command(name, script string) {
	m.args[0], m.args[1] = name, script
	m.Sent = dial.NoRetryCmd{Cmd: goredis.NewCmd(context.Background(), m.args...)}
	m.Sent.SetFirstKeyPos(commandArgs)
}

// commandArgs is how many arguments of EVALSHA come before the keys: the command, the script, the
// number of keys.
const commandArgs = 3

// Deliver passes the outcome of a message that was sent to its calls.
func (m *Message) Deliver(err error) {
	m.RedisTime, m.Uncovered = 0, false
	if err == nil {
		err = m.read(m.Sent.Val())
	}
	if err == nil {
		return
	}
	if errors.Is(err, goredis.ErrClosed) {
		err = limiter.ErrClosed
	}
	err = dial.Undecided(err)
	for _, c := range m.Order {
		c.Err = err
	}
}

// IsTorn reports whether a message was refused because some of its keys have moved with their slot, and
// others have not. Nothing has run.
func (m *Message) IsTorn() bool {
	return len(m.Order) > 1 && m.RedisTime == 0 && limiter.Kind(m.Order[0].Err) == "tryagain"
}
