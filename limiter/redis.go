package limiter

import (
	"context"
	"errors"
	"strings"
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
	// Timeout is how long Decide waits for Redis; required.
	Timeout time.Duration

	// KeyFormat is the form of the keys.
	KeyFormat KeyFormat

	// OnOutage is called when Redis, or the first master of a Cluster, begins to fail, with the
	// first error. It must not block. May be nil.
	OnOutage func(err error)

	// OnRecovery is called when all of Redis decides again, with how long it did not. May be nil.
	OnRecovery func(after time.Duration)

	// OnLost is called for every refund and every charge that Redis did not do, with the reason. It
	// must not block. May be nil.
	OnLost func(err error)

	// OnBatch is called after every batch, with how many requests it held and how long they took.
	// May be nil.
	OnBatch func(size int, took time.Duration)
}

// writer holds what one batch needs to be written and read.
type writer struct {
	keys     *keyWriter
	messages []*message
	used     int // by the current batch
}

// NewRedis returns a store on a client, which it closes. It does not connect. The client must not
// replay commands by itself: [NewClient] makes one that does not.
func NewRedis(client redis.UniversalClient, options RedisOptions) *Redis {
	r := &Redis{client: client, timeout: options.Timeout, keyFormat: options.KeyFormat}
	r.writers.New = func() any { return &writer{keys: options.KeyFormat.newWriter()} }
	r.onBatch = options.OnBatch
	r.uses = newReferences(r.shut)
	r.topology.uses = r.uses
	r.topology.send, r.topology.timeout = r.sendTimed, options.Timeout
	r.topology.recover, r.topology.lost = r.recover, options.OnLost
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
	if !r.uses.acquire() {
		return SourceRedis, errClosed
	}
	defer r.uses.release()
	if r.slotted.Load() {
		return SourceRedis, r.decideSlotted(ctx, checks)
	}
	return SourceRedis, r.decideAt(ctx, r.topology.anyNode, 0, checks)
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

// noRetryCmd is a command that go-redis sends a single time. Its own retries would charge a request
// again whose answer was lost. NoRetry stops them on every kind of client, and still allows a
// Cluster's redirections, which are answers.
type noRetryCmd struct{ *redis.Cmd }

// NoRetry implements [redis.Cmder].
func (noRetryCmd) NoRetry() bool { return true }

// sendTimed sends a batch and reports how long that took.
func (r *Redis) sendTimed(ctx context.Context, n *node, calls []*call) bool {
	if r.onBatch == nil {
		return r.send(ctx, n, calls)
	}
	start, size := time.Now(), len(calls)
	answered := r.send(ctx, n, calls)
	r.onBatch(size, time.Since(start))
	return answered
}

// send decides a batch on a node and reports whether the node answered.
func (r *Redis) send(ctx context.Context, n *node, calls []*call) bool {
	w := r.writer()
	defer r.writers.Put(w)
	if r.slotted.Load() {
		return r.sendSlots(ctx, n, w, calls)
	}
	m := w.message()
	m.write(calls, w.keys)
	err := r.run(ctx, n.client, m)
	if err != nil && strings.Contains(err.Error(), "CROSSSLOT") {
		// A sharding proxy that looks like one Redis. Nothing has run.
		r.slotted.Store(true)
		for _, c := range calls {
			c.slot = w.keys.slotOf(c.checks[0].Key)
		}
		return r.sendSlots(ctx, n, w, calls)
	}
	m.settle(err)
	return err == nil
}

// writer returns a writer without messages from the pool.
func (r *Redis) writer() *writer {
	w := r.writers.Get().(*writer) //nolint:forcetypeassert,errcheck // the pool holds nothing else
	w.used = 0
	return w
}

// message returns the next reusable message.
func (w *writer) message() *message {
	if w.used == len(w.messages) {
		w.messages = append(w.messages, &message{})
	}
	w.used++
	return w.messages[w.used-1]
}

// run sends a message by its script's hash, and with the script's text where Redis does not have it:
// after its first start, a SCRIPT FLUSH, a failover. NOSCRIPT means that nothing has run.
func (r *Redis) run(ctx context.Context, client redis.UniversalClient, m *message) error {
	script, err := r.scripts.get(m.kernels)
	if err != nil {
		return err
	}
	m.command("evalsha", script.sha)
	err = client.Process(ctx, m.sent)
	if isNoScript(err) {
		m.command("eval", script.text)
		err = client.Process(ctx, m.sent)
	}
	return err
}

// command makes the command of a message.
func (m *message) command(name, script string) {
	m.args[0], m.args[1] = name, script
	m.sent = noRetryCmd{redis.NewCmd(context.Background(), m.args...)}
	m.sent.SetFirstKeyPos(commandArgs)
}

func isNoScript(err error) bool { return redis.HasErrorPrefix(err, "NOSCRIPT") }

// settle passes the outcome of a message that was sent to its calls.
func (m *message) settle(err error) {
	if err == nil {
		err = m.read(m.sent.Val())
	}
	if err == nil {
		return
	}
	if errors.Is(err, redis.ErrClosed) {
		err = errClosed
	}
	err = undecided(err)
	for _, c := range m.order {
		c.err = err
	}
}
