package wire

import (
	"context"
	"errors"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Writer holds what one batch needs to be written and read.
type Writer struct {
	Keys     *KeyWriter
	Node     int64 // of this process, see running.Tracker
	Messages []*Message
	Used     int        // by the current batch
	Payloads []*Payload // of the batch
}

// Message returns the next reusable message, to a Redis with that clock.
func (w *Writer) Message(clock *clock.Offset) *Message {
	if w.Used == len(w.Messages) {
		w.Messages = append(w.Messages, &Message{node: w.Node})
	}
	w.Used++
	m := w.Messages[w.Used-1]
	m.clock, m.AsOf = clock, 0
	return m
}

// NoRetryCmd is a command that go-redis sends a single time. Its own retries would charge a request
// again whose answer was lost. NoRetry stops them on every kind of client, and still allows a
// Cluster's redirections, which are answers.
type NoRetryCmd struct{ *goredis.Cmd }

// NoRetry implements [goredis.Cmder].
func (NoRetryCmd) NoRetry() bool { return true }

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
	m.Sent = NoRetryCmd{goredis.NewCmd(context.Background(), m.args...)}
	m.Sent.SetFirstKeyPos(commandArgs)
}

// Deliver passes the outcome of a message that was sent to its calls.
func (m *Message) Deliver(err error) {
	m.RedisTime = 0
	if err == nil {
		err = m.read(m.Sent.Val())
	}
	if err == nil {
		return
	}
	if errors.Is(err, goredis.ErrClosed) {
		err = limiter.ErrClosed
	}
	err = Undecided(err)
	for _, c := range m.Order {
		c.Err = err
	}
}

// IsTorn reports whether a message was refused because some of its keys have moved with their slot, and
// others have not. Nothing has run.
func (m *Message) IsTorn() bool {
	return len(m.Order) > 1 && m.RedisTime == 0 && limiter.Kind(m.Order[0].Err) == "tryagain"
}

// commandArgs is how many arguments of EVALSHA come before the keys: the command, the script, the
// number of keys.
const commandArgs = 3

// argument is a key or the message's text, which go-redis takes without a copy on the heap.
type argument struct{ Bytes []byte }

// MarshalBinary implements [encoding.BinaryMarshaler] for go-redis.
func (a *argument) MarshalBinary() ([]byte, error) { return a.Bytes, nil }

// String returns the key by which go-redis finds the Cluster node.
func (a *argument) String() string { return string(a.Bytes) }
