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

// Redis is the [Store] that any number of processes share. It decides on Redis's own clock, in
// batches, one script run a batch; on a Cluster one run a slot, pipelined per node. It is safe for
// concurrent use.
type Redis struct {
	client  redis.UniversalClient
	timeout time.Duration
	naming  Naming
	scripts scriptSet
	batcher batcher
	writers sync.Pool // of *writer
	slotted atomic.Bool
	closed  atomic.Bool
}

// RedisOptions says how a [Redis] store is to behave.
type RedisOptions struct {
	// Timeout is how long Decide waits for Redis; required.
	Timeout time.Duration

	// Naming says how keys are called.
	Naming Naming
}

// writer is what one batch needs to be written and read.
type writer struct {
	naming   *naming
	messages []*message
}

// NewRedis returns a store on a client, which it closes. It does not connect. The client must not
// replay commands by itself: [NewClient] makes one that does not.
func NewRedis(client redis.UniversalClient, options RedisOptions) *Redis {
	r := &Redis{client: client, timeout: options.Timeout, naming: options.Naming}
	r.batcher.send = r.send
	r.writers.New = func() any { return &writer{naming: options.Naming.start()} }
	_, isCluster := client.(*redis.ClusterClient)
	r.slotted.Store(isCluster)
	return r
}

// Close closes the client. Calls under way end with an error.
func (r *Redis) Close() error {
	r.closed.Store(true)
	return r.client.Close()
}

// Client returns the client, for administration.
func (r *Redis) Client() redis.UniversalClient { return r.client }

// Decide implements [Store]. It waits for at most the timeout. A request whose answer is lost was
// charged at most once: nothing is sent again but what is known not to have run.
func (r *Redis) Decide(ctx context.Context, checks []Check) (Source, error) {
	if r.closed.Load() {
		return SourceRedis, errClosed
	}
	if len(checks) > 1 && r.slotted.Load() && !r.sameSlot(checks) {
		return SourceRedis, r.decideAcross(ctx, checks)
	}
	c := newCall(opTake, checks)
	if err := r.batcher.do(ctx, c, r.timeout); err != nil {
		return SourceRedis, err
	}
	err := c.err
	copy(checks, c.checks)
	c.recycle()
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // nobody waits for the decision that failed
	}
	return SourceRedis, err
}

// Reset forgets one share of a policy and tells whether there was one.
func (r *Redis) Reset(ctx context.Context, p *Policy, key string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	cmd := once{redis.NewCmd(ctx, "unlink", string(r.naming.start().append(nil, p, key)))}
	cmd.SetFirstKeyPos(1)
	if err := r.client.Process(ctx, cmd); err != nil {
		return false, undecided(err)
	}
	return cmd.Val() != int64(0), nil
}

// once is a command that go-redis sends a single time. Its own retries would charge a request
// again whose answer was lost; NoRetry stops them on every kind of client, and still lets a
// Cluster's redirections through, which are answers.
type once struct{ *redis.Cmd }

// NoRetry implements [redis.Cmder].
func (once) NoRetry() bool { return true }

// send decides a batch and tells whether Redis answered.
func (r *Redis) send(ctx context.Context, calls []*call) bool {
	w := r.writers.Get().(*writer) //nolint:forcetypeassert,errcheck // the pool holds nothing else
	defer r.writers.Put(w)
	if r.slotted.Load() {
		return r.sendSlots(ctx, w, calls)
	}
	m := w.message(0)
	m.write(calls, w.naming)
	reply, err := r.run(ctx, m)
	if err != nil && strings.Contains(err.Error(), "CROSSSLOT") {
		// A sharding proxy that looks like one server. Nothing has run.
		r.slotted.Store(true)
		return r.sendSlots(ctx, w, calls)
	}
	m.settle(reply, err)
	return err == nil
}

// message returns the i-th reusable message.
func (w *writer) message(i int) *message {
	for len(w.messages) <= i {
		w.messages = append(w.messages, &message{})
	}
	return w.messages[i]
}

// run sends a message by its script's hash, and with the script's text where Redis does not know
// it: after its first start, a SCRIPT FLUSH, a failover. NOSCRIPT means that nothing has run.
func (r *Redis) run(ctx context.Context, m *message) (any, error) {
	s, err := r.scripts.get(m.kernels)
	if err != nil {
		return nil, err
	}
	cmd := m.command("evalsha", s.sha)
	err = r.client.Process(ctx, cmd)
	if isNoScript(err) {
		cmd = m.command("eval", s.text)
		err = r.client.Process(ctx, cmd)
	}
	return cmd.Val(), err
}

// command makes the command of a message.
func (m *message) command(name, script string) once {
	m.args[0], m.args[1] = name, script
	cmd := once{redis.NewCmd(context.Background(), m.args...)}
	cmd.SetFirstKeyPos(commandArgs)
	return cmd
}

func isNoScript(err error) bool { return redis.HasErrorPrefix(err, "NOSCRIPT") }

// settle hands the outcome of a message to its calls.
func (m *message) settle(reply any, err error) {
	if err == nil {
		err = m.read(reply)
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
