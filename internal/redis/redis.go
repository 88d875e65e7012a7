// Package redis is the store that any number of processes share. It decides which node of Redis a check goes to,
// sends checks there in batches, and moves on with a changing topology; scripts decide. Nodes that
// fail are probed (breaker, health), calls wait for a place in a batch (batch, waiter), running requests are counted in
// epochs (record, tracker), and operators read and delete states (admin). What this module and Redis say to each other
// is apart from who sends it: operations and what they bring (payload), the message of a batch, the reader of answers
// (read), the names of keys (key_format) and the scripts.
package redis

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Store is the [limiter.Store] of any number of processes together. It decides on Redis's own clock, in
// batches, one script run a batch; on a Cluster one run a slot, pipelined per node. It is safe for
// concurrent use.
type Store struct {
	Admin
	client   goredis.UniversalClient // as New got it
	Scripts  ScriptSet
	Topology topology
	Writers  sync.Pool // of *Writer
	Slotted  atomic.Bool
	closed   atomic.Bool
	onBatch  func(size int, took time.Duration)

	Uses       *clock.References
	closing    atomic.Bool // Close was called
	closeError error       // of closing the client
	probeKeys  sync.Map    // string by uint16: a reserved key in each probed slot

	Running *Tracker
}

// Setup is what a [Store] is made with: the form of its keys, and the functions that hear of what happens.
type Setup struct {
	// KeyFormat is the form of the keys.
	KeyFormat limiter.KeyFormat

	// OnOutage is called when Redis, or the first master of a Cluster, begins to fail, with the
	// first error. It must not block. May be nil.
	OnOutage func(err error)

	// OnRecovery is called when all of Redis decides again, with how long it did not. May be nil.
	OnRecovery func(after time.Duration)

	// OnRefusedLogin is called for every batch that waits for another connection because Redis or
	// the sentinels refuse a new one, or its files cannot be read, while older connections work. The
	// error is an [limiter.UndecidedError]. It must not block. May be nil.
	OnRefusedLogin func(err error)

	// OnLost is called for every refund, charge and repayment that Redis did not do, with the reason. It
	// must not block. May be nil.
	OnLost func(err error)

	// OnBatch is called after every batch, with how many requests it held and how long they took.
	// May be nil.
	OnBatch func(size int, took time.Duration)
}

// New returns a store on a client, which it closes. It does not connect. Decisions wait for as
// long as the client waits for a reply; see [dial.New]. The connections of a client that dial.New made for a single
// Redis are renewed in the background, and replaced where its address leads to another server.
func New(client goredis.UniversalClient, setup Setup) *Store {
	r := &Store{client: client}
	renewed, isRenewed := client.(renewable)
	if isRenewed {
		client = renewed.Plain()
	}
	r.Admin = newAdmin(client, dial.TimeoutOf(client), setup.KeyFormat,
		func(slot uint16) *clock.Offset { return &r.Topology.lastNode(slot).Clock })
	r.startRunning()
	r.Writers.New = func() any {
		return &Writer{Keys: NewKeyWriter(setup.KeyFormat), Scripts: &r.Scripts, Node: r.Running.Node}
	}
	r.onBatch = setup.OnBatch
	r.Uses = clock.NewReferences(r.shut)
	r.Topology.uses = r.Uses
	r.Topology.Send, r.Topology.timeout = r.Send, r.Timeout
	r.Topology.recover, r.Topology.lost = r.recover, setup.OnLost
	r.Topology.refused = setup.OnRefusedLogin
	r.Topology.Outages.OnOutage, r.Topology.Outages.OnRecovery = setup.OnOutage, setup.OnRecovery
	r.Topology.start(client)
	if n := r.Topology.AnyNode; isRenewed {
		n.renewal = newRenewal(n.life, renewed, func() { r.renew(n) })
	}
	r.Running.Ticks.Life = r.Topology.Life
	r.Slotted.Store(r.Topology.cluster != nil)
	return r
}

// Client returns the client that the store was made with.
func (r *Store) Client() goredis.UniversalClient { return r.client }

// shut closes the client once nothing uses it.
func (r *Store) shut() {
	r.Release()
	r.closeError = r.client.Close()
}

// Release ends the store and leaves its client open.
func (r *Store) Release() {
	r.closed.Store(true)
	r.Topology.end()
}

// Decide implements [limiter.Store]. It waits for at most the timeout. A request whose answer is lost was
// charged at most once: a command is sent again only if it has certainly not run.
func (r *Store) Decide(ctx context.Context, checks []limiter.Check) (limiter.Source, error) {
	if err := limiter.Prepare(checks); err != nil {
		return limiter.SourceRedis, err
	}
	return limiter.SourceRedis, r.DecideWithin(ctx, checks)
}

// hold keeps the store open until a release of its uses. It reports whether the store is open.
func (r *Store) hold() bool { return !r.closed.Load() && r.Uses.Acquire() }

// DecideWithin decides checks that are valid.
func (r *Store) DecideWithin(ctx context.Context, checks []limiter.Check) error {
	if !r.Uses.Acquire() {
		return limiter.ErrClosed
	}
	defer r.Uses.Release()
	if r.Slotted.Load() {
		return r.decideSlotted(ctx, checks)
	}
	return r.decideAt(ctx, r.Topology.AnyNode, 0, checks)
}

// decideAt decides checks of one slot on a node.
func (r *Store) decideAt(ctx context.Context, n *Node, slot uint16, checks []limiter.Check) error {
	op, countsRunning := takeOf(checks)
	if countsRunning {
		return r.decideRunning(ctx, n, op, slot, checks, nil)
	}
	return n.decideChecks(ctx, op, slot, checks, r.Timeout)
}

// takeOf returns the operation that takes the units of checks, and whether one of them counts running requests.
func takeOf(checks []limiter.Check) (op Operation, countsRunning bool) {
	op = OpTake
	for i := range checks {
		if checks[i].Refundable {
			op |= WithReceipt
		}
		countsRunning = countsRunning || checks[i].Policy.CountsRunning
	}
	return op, countsRunning
}

// Offset returns how far the clock of the Redis that decides for a slot is ahead of this machine's wall
// clock; negative where it is behind. It is not known before that Redis's first answer.
func (r *Store) Offset(slot uint16) (ahead time.Duration, known bool) {
	return r.Clock(slot).Ahead()
}

// Settle corrects what a check took to what its request cost, as failover.Store.Settle does, at most once, in the
// background. If Redis does not answer, the units that were taken drain with time.
func (r *Store) Settle(check limiter.Check, cost int64) {
	if change := limiter.SettleTo(&check, cost); change != (limiter.Change{}) {
		r.SettleThen(&check, change, false, r.Topology.AnyNode.reportLoss)
	}
}

// SettleThen corrects what a check took by a change, and answers with the quota after the change if asked. The function
// runs with the outcome, perhaps at once; it must not block nor keep what it gets.
func (r *Store) SettleThen(check *limiter.Check, change limiter.Change, shows bool, done func(Ended)) {
	c := NewChange([]limiter.Check{*check}, change)
	if shows {
		c.Op |= Shown
	}
	if r.closed.Load() {
		c.detach(done)
		c.end(limiter.ErrClosed)
		return
	}
	n, slot := r.NodeOf(check.Key)
	c.Slot = slot
	n.Background(c, done)
}

// Command runs a command that decides nothing, such as one of administration, and returns its reply; nil
// where Redis replies so. The key at that place of the arguments says which master of a Cluster runs it.
// It is sent once, also while the breaker is open, and its failure opens none. An error wraps
// [limiter.ErrUndecided]; the command may have run nevertheless, unless [Answered].
func (r *Store) Command(ctx context.Context, keyAt int8, args ...any) (any, error) {
	if !r.Uses.Acquire() {
		return nil, limiter.ErrClosed
	}
	defer r.Uses.Release()
	cmd := dial.NoRetryCmd{Cmd: goredis.NewCmd(ctx, args...)}
	cmd.SetFirstKeyPos(keyAt)
	err := r.Client().Process(ctx, cmd)
	if dial.IsNil(err) {
		return nil, nil //nolint:nilnil // the reply is nil
	}
	return cmd.Val(), dial.Undecided(err)
}

// Close ends the owner's use of the store. The client is closed after decisions under way, queued
// refunds and charges, requests that the store in failover retains, and running requests until their EndRunning.
// Close waits for that, but not longer than the timeout; the store decides until then.
func (r *Store) Close() error {
	if r.closing.Swap(true) {
		return nil
	}
	r.Uses.Release()
	if !r.awaitOrTimeout(r.Uses.Closed) {
		return nil
	}
	return r.closeError
}

// awaitOrTimeout waits until something is done, not longer than the timeout, and reports whether it is.
func (r *Store) awaitOrTimeout(done <-chan struct{}) bool {
	wait := time.NewTimer(min(r.Timeout, dial.ConnectBudget))
	defer wait.Stop()
	select {
	case <-done:
		return true
	case <-wait.C:
		return false
	}
}

// NodeName returns the name of this process in what [Admin.Inspect] shows of running requests. It is
// random, and another one in each store.
func (r *Store) NodeName() string { return NodeName(r.Running.Node) }
