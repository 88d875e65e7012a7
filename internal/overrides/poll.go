package overrides

import (
	"context"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis/dial"
)

// PollInterval is the time between two looks at the version in Redis.
const PollInterval = 500 * time.Millisecond

// Start begins to poll Redis, once. Without Redis it does nothing.
func (l *Live) Start() {
	if l.store != nil && !l.started.Swap(true) {
		go l.poll()
	}
}

// Close ends the polls. A command under way keeps the store open until it has ended.
func (l *Live) Close() { l.end() }

func (l *Live) poll() {
	ticker := time.NewTicker(PollInterval)
	defer ticker.Stop()
	failed := false
	for {
		err := l.pollOnce()
		if l.life.Err() != nil {
			return
		}
		if l.hooks.OnUnread != nil && (err != nil || failed) {
			l.hooks.OnUnread(err)
		}
		failed = err != nil
		select {
		case <-ticker.C:
		case <-l.life.Done():
			return
		}
	}
}

// pollOnce may connect, which takes longer than a command.
func (l *Live) pollOnce() error {
	ctx, cancel := context.WithTimeout(l.life, dial.ConnectBudget)
	defer cancel()
	return l.Refresh(ctx)
}
