package redis

import (
	"context"
	"math/rand/v2"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
)

// renewable is a client of a single Redis whose connections can be replaced while they are in use: one of dial.New.
type renewable interface {
	goredis.UniversalClient

	// Plain returns the client whose commands go to the connections of the moment.
	Plain() *goredis.Client

	// Renew uses as many new connections as are open, if a function accepts a client that has them and no others.
	Renew(ctx context.Context, accept func(fresh *goredis.Client) error) (renewed bool, err error)

	// Prepare has the client hold as many connections as are wanted, and sends commands: see dial.Prepare.
	Prepare(ctx context.Context, within time.Duration, connections int, commands []goredis.Cmder) error

	// OnMoved has a function called when a new connection leads to another address than the others.
	OnMoved(f func())
}

// The connections are renewed after a random time between these, so that a store finds out where its address leads by
// then. Many nodes that began together do not renew theirs together.
const (
	minRenewal = 5 * time.Minute
	maxRenewal = 10 * time.Minute
)

// renewal is when the connections of a node are replaced by new ones, which may lead to another server: now and then,
// once a second while the server of those in use refuses to decide, and when a new one leads to another address.
type renewal struct {
	client renewable
	task   clock.Task
}

// newRenewal has a function run that renews the connections of a client, until the context ends.
func newRenewal(life context.Context, client renewable, renew func()) *renewal {
	w := &renewal{client: client}
	w.task.Run, w.task.Life = renew, life
	client.OnMoved(func() { w.startBy(rand.N(probeInterval)) })
	w.startLater()
	return w
}

// startLater has connections renewed after minutes.
func (w *renewal) startLater() { w.task.Start(minRenewal + rand.N(maxRenewal-minRenewal)) }

// startBy has connections renewed after a while, unless that is due earlier.
func (w *renewal) startBy(after time.Duration) {
	now := clock.Now()
	w.task.StartBy(now.Add(after), now)
}
