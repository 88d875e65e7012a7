package limiter

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// writer holds what one batch needs to be written and read.
type writer struct {
	keys     *keyWriter
	node     int64 // of this process, see runningTracker
	messages []*message
	used     int     // by the current batch
	calls    []*call // of a batch for several slots, in the order of these
}

// writer returns a writer without messages from the pool.
func (r *Redis) writer() *writer {
	w := r.writers.Get().(*writer) //nolint:forcetypeassert,errcheck // the pool holds nothing else
	w.used = 0
	return w
}

// message returns the next reusable message, to a node.
func (w *writer) message(n *node) *message {
	if w.used == len(w.messages) {
		w.messages = append(w.messages, &message{node: w.node})
	}
	w.used++
	m := w.messages[w.used-1]
	m.clock, m.asOf = &n.clock, 0
	return m
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
	m := w.message(n)
	m.write(calls, w.keys)
	err := r.run(ctx, n.client, m)
	if err != nil && strings.Contains(err.Error(), "CROSSSLOT") {
		// A sharding proxy that looks like one Redis. Nothing has run.
		r.slotted.Store(true)
		for _, c := range calls {
			c.slot = w.keys.slotOf(c.checks[0].Key.text)
		}
		return r.sendSlots(ctx, n, w, calls)
	}
	n.finish(m, err)
	if m.hasUncovered() {
		again := w.again(n, m)
		n.finish(again, r.run(ctx, n.client, again))
	}
	return err == nil
}

// run sends a message by its script's hash, and with the script's text where Redis does not have it:
// after its first start, a SCRIPT FLUSH, a failover. NOSCRIPT means that nothing has run.
func (r *Redis) run(ctx context.Context, client redis.UniversalClient, m *message) error {
	script, err := r.scripts.get(m.kernels)
	if err != nil {
		return err
	}
	err = m.process(ctx, client, "evalsha", script.sha)
	if isNoScript(err) {
		err = m.process(ctx, client, "eval", script.text)
	}
	return err
}

// process sends a message by one command.
func (m *message) process(ctx context.Context, client redis.UniversalClient, name, script string) error {
	m.command(name, script)
	m.began = time.Now()
	err := client.Process(ctx, m.sent)
	m.ended = time.Now()
	return err
}

// command makes the command of a message.
func (m *message) command(name, script string) {
	m.args[0], m.args[1] = name, script
	m.sent = noRetryCmd{redis.NewCmd(context.Background(), m.args...)}
	m.sent.SetFirstKeyPos(commandArgs)
}

func isNoScript(err error) bool { return redis.HasErrorPrefix(err, "NOSCRIPT") }

// finish passes the outcome of a message that was sent to its calls, and compares the clocks.
func (n *node) finish(m *message, err error) {
	m.deliver(err)
	if m.redisTime > 0 {
		n.clock.learn(m.began, m.ended, m.redisTime)
	}
}

// deliver passes the outcome of a message that was sent to its calls.
func (m *message) deliver(err error) {
	m.redisTime = 0
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
