package overrides

import (
	"context"
	"fmt"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

const (
	// lookInterval is the time between two looks at Redis's clock and at the number of entries.
	lookInterval = 30 * time.Second

	// scanTries is how often the entries are read where they change meanwhile, before the next poll tries.
	scanTries = 3
)

// sync compares the versions, and brings this process and Redis to the same one. The caller has the turn.
func (l *Live) sync(ctx context.Context) error {
	v, err := l.get(ctx)
	known := l.held.Load().number
	switch {
	case err != nil:
		return err
	case v.number > known:
		return l.load(ctx)
	case v.number < known:
		return l.restore(ctx, known)
	case v.number > 0 && time.Since(l.lookedAt) >= lookInterval:
		return l.verify(ctx)
	}
	return nil
}

// verify finds out whether Redis has lost entries, by an eviction or by hand, and restores them.
func (l *Live) verify(ctx context.Context) error {
	v, entries, err := l.look(ctx)
	h := l.held.Load()
	if err != nil || v.number != h.number || entries == len(h.stored) {
		return err
	}
	return l.restore(ctx, h.number+1)
}

// load reads all entries. If the version is the same before and after, no entry has changed meanwhile. If Redis has lost
// entries, lost.lua lowers the version so that the nodes which know the entries restore them.
func (l *Live) load(ctx context.Context) error {
	for range scanTries {
		before, entries, err := l.look(ctx)
		if err == nil && entries != before.count {
			_, err = l.eval(ctx, lostScript)
		}
		switch {
		case err != nil:
			return err
		case entries > maxEntries:
			err = fmt.Errorf("redis holds %d overrides, and %d is the most: delete the key %s", entries, maxEntries, l.keys.entries)
			return &limiter.UndecidedError{Kind: "value", Err: err}
		case entries != before.count:
			continue // it has another version now
		}
		stored, err := l.scan(ctx)
		if err != nil {
			return err
		}
		after, err := l.get(ctx)
		if err != nil {
			return err
		}
		if before == after && len(stored) == after.count {
			l.apply(holding{version: after, stored: stored})
			return nil
		}
	}
	return nil // they change all the time; the next poll reads them
}

// restore writes the entries that this process knows to a Redis that has lost them, with the version number. The number
// is a new one if nodes that know fewer entries have to read them again.
func (l *Live) restore(ctx context.Context, number int64) error {
	args := []any{number}
	h := *l.held.Load()
	for field, value := range h.stored {
		args = append(args, field, value)
	}
	reply, err := l.eval(ctx, restoreScript, args...)
	if err != nil {
		return err
	}
	text, _ := reply.(string)
	if v := parseVersion(text); v.number == number && v.count == len(h.stored) {
		h.version = v
		l.held.Store(&h)
		return nil
	}
	return l.load(ctx) // another node was faster
}
