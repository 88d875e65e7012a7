package redis

import (
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// loginReplies are the replies to AUTH of a Redis that refuses it. No other command gets them.
var loginReplies = []string{"WRONGPASS ", "ERR invalid password", "ERR AUTH ", "ERR Client sent AUTH"}

// loginAlerts are the alerts of TLS by which a server refuses a client, as Go words them. A proxy may send
// any other after it has passed on a command, which Redis may have run.
var loginAlerts = []string{"certificate", "handshake failure", "access denied", "protocol version", "insufficient security"}

// sentinelsRefuse begins the client's error about sentinels of which none has answered.
const sentinelsRefuse = "redis: all sentinels "

// refusedLogin reports whether an error says that a new connection was not let in: Redis or the
// sentinels refuse the password, no sentinel listens, one side refuses the other's certificate, or a
// file cannot be read. Nothing has run then, and open connections may go on. NOAUTH and NOPERM of an
// open connection are not of these: its user has lost a permission.
func refusedLogin(err error) bool {
	var (
		own         *dial.CredentialsError
		certificate *tls.CertificateVerificationError
		alert       *net.OpError
		reply       goredis.Error
		wrapped     *limiter.UndecidedError
	)
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	switch {
	case err == nil:
		return false
	case errors.As(err, &own), errors.As(err, &certificate):
		return true
	case errors.As(err, &alert) && alert.Op == "remote error":
		return slices.ContainsFunc(loginAlerts, func(words string) bool { return strings.Contains(alert.Err.Error(), words) })
	}
	text := err.Error()
	if strings.HasPrefix(text, sentinelsRefuse) {
		kind := dial.KindOf(err)
		return kind == "auth" || kind == "refused"
	}
	return errors.As(err, &reply) && slices.ContainsFunc(loginReplies, func(words string) bool { return strings.HasPrefix(text, words) })
}

// This file keeps Redis in use while it refuses new connections and older ones work, as it does when
// a password was changed there and its file was not. For example with two batches in flight:
//
//	0.0 ms  A third batch leaves. No connection is free, so the client opens one.
//	0.4 ms  Redis refuses its password. Nothing of the batch has run: it returns to the queue.
//	0.5 ms  The first batch is back. Its sender takes the third one along.
//
// For loginPause no more senders open than there were connections that work. Where no older
// connection works, the batch fails, and the breaker opens.

// loginPause is how long after a refused login no further connection is opened.
const loginPause = time.Second

// limitTo keeps the number of senders at what works, for loginPause.
func (s *senders) limitTo(most int) { s.limit, s.limitedUntil = most, clock.Now().Add(loginPause) }

// putBack returns those calls of a batch to the queue that a new connection was refused for, if older
// connections work: a batch is in flight on one, or was answered since this one left. It returns the
// other calls, and why the connection was refused. The lock must be held.
func (b *batcher) putBack(calls []*Call, sent clock.Moment) (others []*Call, refusal error) {
	if len(b.Senders.inflights) == 0 && b.answered <= sent {
		return calls, nil
	}
	var back []*Call
	others = slices.DeleteFunc(calls, func(c *Call) bool {
		if !refusedLogin(c.Err) {
			return false
		}
		refusal = c.Err
		c.Err = nil
		if c.state.CompareAndSwap(callSent, callQueued) {
			back = append(back, c)
		} else {
			c.Recycle() // its caller has left
		}
		return true
	})
	if refusal == nil {
		return others, nil
	}
	b.Senders.limitTo(max(1, len(b.Senders.inflights)))
	b.Waiting = slices.Insert(b.Waiting, 0, back...)
	if len(b.Waiting) > 0 {
		b.watch()
	}
	return others, refusal
}
