package overrides

import (
	"context"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
)

// pollInterval is the time between two looks at the version in Redis.
const pollInterval = 500 * time.Millisecond

// Start begins to poll Redis, once. Without Redis it does nothing.
func (l *Live) Start() {
	if l.store != nil && !l.started.Swap(true) {
		l.inherit(l.earlier) // what was set on this node since
		l.earlier = nil
		l.polls.Run, l.polls.Life = l.poll, l.life
		l.polls.Start(0)
	}
}

// Close ends the polls. A command under way keeps the store open until it has ended.
func (l *Live) Close() { l.end() }

// poll reads what has changed, again an interval after it began. It may connect, which takes longer than a command.
func (l *Live) poll() {
	began := clock.Now()
	ctx, cancel := context.WithTimeout(l.life, dial.ConnectBudget)
	defer cancel()
	err := l.Refresh(ctx)
	if l.life.Err() != nil {
		return
	}
	l.tendOwn(ctx, err)
	if err == nil {
		l.marker.look(ctx)
		l.tellVersion(ctx)
	} else {
		l.marker.forget()
	}
	if failed := l.failed.Swap(err != nil); l.hooks.OnUnread != nil && (err != nil || failed) {
		l.hooks.OnUnread(err)
	}
	l.polls.StartBy(began.Add(pollInterval), clock.Now())
}

// tellVersion calls OnVersion where the version has another text than before.
func (l *Live) tellVersion(ctx context.Context) {
	if l.hooks.OnVersion != nil && l.news.Swap(false) && l.hooks.OnVersion(ctx) != nil {
		l.news.Store(true)
	}
}
