package limiter

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis is the [Store] of any number of processes together. It decides on Redis's own clock, in
// batches, one script run a batch; on a Cluster one run a slot, pipelined per node. It is safe for
// concurrent use.
type Redis struct {
	client    redis.UniversalClient
	timeout   time.Duration
	keyFormat KeyFormat
	scripts   scriptSet
	topology  topology
	writers   sync.Pool // of *writer
	slotted   atomic.Bool
	closed    atomic.Bool
	onBatch   func(size int, took time.Duration)

	uses       *references
	closing    atomic.Bool // Close was called
	closeError error       // of closing the client
	probeKeys  sync.Map    // string by uint16: a reserved key in each probed slot
}

// RedisOptions says how a [Redis] store is to behave.
type RedisOptions struct {
	// KeyFormat is the form of the keys.
	KeyFormat KeyFormat

	// OnOutage is called when Redis, or the first master of a Cluster, begins to fail, with the
	// first error. It must not block. May be nil.
	OnOutage func(err error)

	// OnRecovery is called when all of Redis decides again, with how long it did not. May be nil.
	OnRecovery func(after time.Duration)

	// OnRefusedLogin is called for every batch that waits for another connection because Redis or
	// the sentinels refuse a new one, or its files cannot be read, while older connections work. The
	// error is an [UndecidedError]. It must not block. May be nil.
	OnRefusedLogin func(err error)

	// OnLost is called for every refund and every charge that Redis did not do, with the reason. It
	// must not block. May be nil.
	OnLost func(err error)

	// OnBatch is called after every batch, with how many requests it held and how long they took.
	// May be nil.
	OnBatch func(size int, took time.Duration)
}

// NewRedis returns a store on a client, which it closes. It does not connect. Decisions wait for as
// long as the client waits for a reply; see [NewClient].
func NewRedis(client redis.UniversalClient, options RedisOptions) *Redis {
	r := &Redis{client: client, timeout: timeoutOf(client), keyFormat: options.KeyFormat}
	r.writers.New = func() any { return &writer{keys: options.KeyFormat.newWriter()} }
	r.onBatch = options.OnBatch
	r.uses = newReferences(r.shut)
	r.topology.uses = r.uses
	r.topology.send, r.topology.timeout = r.sendTimed, r.timeout
	r.topology.recover, r.topology.lost = r.recover, options.OnLost
	r.topology.refused = options.OnRefusedLogin
	r.topology.outages.onOutage, r.topology.outages.onRecovery = options.OnOutage, options.OnRecovery
	r.topology.start(client)
	r.slotted.Store(r.topology.cluster != nil)
	return r
}

// shut closes the client once nothing uses it.
func (r *Redis) shut() {
	r.Release()
	r.closeError = r.client.Close()
}

// Release ends the store and leaves its client open.
func (r *Redis) Release() {
	r.closed.Store(true)
	r.topology.end()
}

// Client returns the client, for administration.
func (r *Redis) Client() redis.UniversalClient { return r.client }

// Decide implements [Store]. It waits for at most the timeout. A request whose answer is lost was
// charged at most once: a command is sent again only if it has certainly not run.
func (r *Redis) Decide(ctx context.Context, checks []Check) (Source, error) {
	if err := validate(checks); err != nil {
		return SourceRedis, err
	}
	return SourceRedis, r.decide(ctx, checks)
}

// decide decides checks that are valid.
func (r *Redis) decide(ctx context.Context, checks []Check) error {
	if !r.uses.acquire() {
		return errClosed
	}
	defer r.uses.release()
	if r.slotted.Load() {
		return r.decideSlotted(ctx, checks)
	}
	return r.decideAt(ctx, r.topology.anyNode, 0, checks)
}

// offset returns how far the clock of the Redis that decides for a slot is ahead of this machine's wall
// clock; negative where it is behind. It is not known before that Redis's first answer.
func (r *Redis) offset(slot uint16) (ahead time.Duration, known bool) {
	return r.topology.lastNode(slot).clock.offset()
}

// decideAt decides checks of one slot on a node.
func (r *Redis) decideAt(ctx context.Context, n *node, slot uint16, checks []Check) error {
	op := opTake
	if reserves(checks) {
		op = opReserve
	}
	c := newCall(op, checks)
	c.slot = slot
	if err := n.decide(ctx, c, checks, r.timeout); err != nil {
		return err
	}
	c.take(checks)
	return nil
}

// Refund undoes the charges of checks with Reserve, each at most once, in the background. Other checks
// stay charged. Where Redis does not answer they drain by themselves.
func (r *Redis) Refund(checks []Check) {
	for i := range checks {
		if c := &checks[i]; c.Reserve && !c.Peek {
			r.enqueueAsync(opRefund, c, nil)
		}
	}
}

// chargeAsync charges a check without the condition that there is room, at most once, in the
// background. It reports whether the charge was queued.
func (r *Redis) chargeAsync(check *Check) bool { return r.enqueueAsync(opCharge, check, nil) }

// peekAsync queries what a check would get, without charging it, in the background. The callback
// runs with the answer, if there is one; it must not block nor keep the check.
func (r *Redis) peekAsync(check *Check, answered func(*Check)) {
	r.enqueueAsync(opPeek, check, answered)
}

// enqueueAsync queues an operation on a check that no request waits for, and reports whether it was
// queued.
func (r *Redis) enqueueAsync(op operation, check *Check, answered func(*Check)) bool {
	s, slot := r.nodeOf(check.Key)
	if r.closed.Load() {
		s.lose(op, errClosed)
		return false
	}
	c := newCall(op, []Check{*check})
	c.slot = slot
	return s.enqueue(c, func(c *call) {
		if answered != nil {
			answered(&c.checks[0])
		}
	})
}
