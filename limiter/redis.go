package limiter

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/scripts"
)

// Redis is the [Store] of any number of processes together. It decides on Redis's own clock, in
// batches, one script run a batch; on a Cluster one run a slot, pipelined per node. It is safe for
// concurrent use.
type Redis struct {
	admin
	scripts  scriptSet
	topology topology
	writers  sync.Pool // of *writer
	slotted  atomic.Bool
	closed   atomic.Bool
	onBatch  func(size int, took time.Duration)

	uses       *references
	closing    atomic.Bool // Close was called
	closeError error       // of closing the client
	probeKeys  sync.Map    // string by uint16: a reserved key in each probed slot

	running *runningTracker
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

	// OnLost is called for every refund, charge and repayment that Redis did not do, with the reason. It
	// must not block. May be nil.
	OnLost func(err error)

	// OnBatch is called after every batch, with how many requests it held and how long they took.
	// May be nil.
	OnBatch func(size int, took time.Duration)
}

// NewRedis returns a store on a client, which it closes. It does not connect. Decisions wait for as
// long as the client waits for a reply; see [NewClient].
func NewRedis(client goredis.UniversalClient, options RedisOptions) *Redis {
	scripts.Prepare()
	r := &Redis{admin: admin{client: client, timeout: timeoutOf(client), keyFormat: options.KeyFormat}}
	r.clock = func(slot uint16) *clock.Offset { return &r.topology.lastNode(slot).clock }
	r.startRunning()
	r.writers.New = func() any { return &writer{keys: options.KeyFormat.newWriter(), node: r.running.node} }
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
func (r *Redis) Client() goredis.UniversalClient { return r.client }

// Decide implements [Store]. It waits for at most the timeout. A request whose answer is lost was
// charged at most once: a command is sent again only if it has certainly not run.
func (r *Redis) Decide(ctx context.Context, checks []Check) (Source, error) {
	if err := validate(checks); err != nil {
		return SourceRedis, err
	}
	forgetRunning(checks)
	return SourceRedis, r.decide(ctx, checks)
}

// hold keeps the store open until a release of its uses. It reports whether the store is open.
func (r *Redis) hold() bool { return !r.closed.Load() && r.uses.acquire() }

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
	return r.clock(slot).Ahead()
}

// decideCall decides checks of one slot on a node by one call.
func (r *Redis) decideCall(ctx context.Context, n *node, slot uint16, checks []Check, timeout time.Duration) error {
	op := opTake
	if refundable(checks) {
		op = opTakeRefundable
	}
	c := newCall(op, checks)
	c.slot = slot
	if err := n.decide(ctx, c, checks, timeout); err != nil {
		return err
	}
	c.take(checks)
	return nil
}

// Settle corrects what a check took to what its request cost, as [Failover.Settle] does, at most once, in the
// background. Where Redis does not answer, what was taken drains by itself.
func (r *Redis) Settle(check Check, cost int64) {
	if !settleTo(&check, cost) {
		return
	}
	r.settle(&check, false, func(_ *Check, err error) {
		if err != nil {
			r.topology.anyNode.lose(opSettle, err)
		}
	})
}

// settle does so by the check's change, and answers with the quota as it stands then if asked. The function runs with
// the outcome, perhaps at once; it must not block nor keep the check.
func (r *Redis) settle(check *Check, shows bool, done func(c *Check, err error)) {
	if r.closed.Load() {
		done(check, errClosed)
		return
	}
	n, slot := r.nodeOf(check.Key)
	c := newCall(opSettle, []Check{*check})
	c.slot, c.shows = slot, shows
	err := n.background(c, func(c *call) {
		err := c.err
		if c.isPostponed() {
			err = errOverload // the queue had no room for another try
		}
		done(&c.checks[0], err)
	})
	if err != nil {
		done(check, err)
	}
}

// Command runs a command that decides nothing, such as one of administration, and returns its reply; nil
// where Redis replies so. The key at that place of the arguments says which master of a Cluster runs it.
// It is sent once, also while the breaker is open, and its failure opens none. An error wraps
// [ErrUndecided]; the command may have run nevertheless, unless [Answered].
func (r *Redis) Command(ctx context.Context, keyAt int8, args ...any) (any, error) {
	if !r.uses.acquire() {
		return nil, errClosed
	}
	defer r.uses.release()
	cmd := noRetryCmd{goredis.NewCmd(ctx, args...)}
	cmd.SetFirstKeyPos(keyAt)
	err := r.client.Process(ctx, cmd)
	if isNil(err) {
		return nil, nil //nolint:nilnil // the reply is nil
	}
	return cmd.Val(), undecided(err)
}

// Close ends the owner's use of the store. The client is closed after decisions under way, queued
// refunds and charges, requests of [Failover.Retain], and running requests until their [Failover.EndRunning].
// Close waits for that, but not longer than the timeout; the store decides until then.
func (r *Redis) Close() error {
	if r.closing.Swap(true) {
		return nil
	}
	r.uses.release()
	wait := time.NewTimer(min(r.timeout, ConnectBudget))
	defer wait.Stop()
	select {
	case <-r.uses.closed:
		return r.closeError
	case <-wait.C:
		return nil
	}
}

// NodeName returns the name of this process in what [Redis.Inspect] shows of running requests. It is
// random, and another one in each store.
func (r *Redis) NodeName() string { return nodeName(r.running.node) }
