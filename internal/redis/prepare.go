package redis

import (
	"context"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/wire"
)

// This file makes a Redis ready that was away, before requests use it. It may have been restarted, and not know the
// scripts. For example at a round trip of 40 ms, with a timeout of 100 ms, in which a request could not connect, ask by
// the hash of a script, and send the script:
//
//	0 ms    A knock connects and sends PING. It is the first that is not refused; there is one every 50 ms.
//	120 ms  It is answered. All other connections are made, and the scripts follow in one message.
//	240 ms  The probe repeats what failed.
//	320 ms  It is decided. The breaker closes, and requests meet open connections and known scripts.

const (
	// knockInterval is how long after an attempt to reach a Redis that is away the next one begins.
	knockInterval = 50 * time.Millisecond

	// scriptsKept is for how long before an outage a script was sent that a Redis is given after it.
	scriptsKept = time.Minute
)

// isAway reports whether an error says that a Redis cannot be reached, or that it is starting.
func isAway(err error) bool {
	switch limiter.Kind(wire.Undecided(err)) {
	case "refused", "connection", "timeout", "loading":
		return err != nil
	}
	return false
}

// reach makes a node ready that was away when an attempt failed, and repeats the attempt.
func (r *Store) reach(n *Node, a *Attempt) error {
	if isAway(a.Err) {
		if err := r.prepare(n, a); isAway(err) {
			return wire.Undecided(err)
		}
	}
	return r.probe(n.life, n, a)
}

// prepare has a node hold as many connections as it used, and know the scripts that were in use when an attempt failed.
func (r *Store) prepare(n *Node, a *Attempt) error {
	connections, scripts := n.Batcher.peak(), r.introductions(n.life, a)
	if n.renewal != nil {
		return n.renewal.client.Prepare(n.life, r.patience(), connections, scripts)
	}
	if client, ok := n.Client.(*goredis.Client); ok {
		return dial.Prepare(n.life, client, r.patience(), connections, scripts)
	}
	return nil // all of a Cluster
}

// patience is how long what no request waits for may take.
func (r *Store) patience() time.Duration {
	return min(max(r.Timeout, ProbeInterval), dial.ConnectBudget)
}

// introductions are commands that have a Redis know the scripts that were sent in the minute before an attempt failed, on
// the key of probes. The user may lack a right that they need: decisions show that.
func (r *Store) introductions(ctx context.Context, a *Attempt) (commands []goredis.Cmder) {
	w := r.writer()
	defer r.Writers.Put(w)
	key := string(w.Keys.Append(nil, anyProbed.ID, r.probeKey(a.Slot)))
	for _, script := range r.Scripts.SentSince(a.at.Add(-scriptsKept)) {
		commands = append(commands, script.Introduce(ctx, key))
	}
	return commands
}

// attemptNow returns an attempt of a take that has not failed.
func attemptNow() *Attempt { return &Attempt{Op: wire.OpTake, at: clock.Now()} }
