package overrides

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// redisKeys are the keys that the overrides lie in.
type redisKeys struct{ version, entries string }

func newRedisKeys(format limiter.KeyFormat) redisKeys {
	const tag = "overrides"
	return redisKeys{version: format.Reserved(tag, "version"), entries: format.Reserved(tag, "entries")}
}

//go:embed change.lua
var changeScript string

//go:embed look.lua
var lookScript string

//go:embed restore.lua
var restoreScript string

const (
	// lookInterval is the time between two looks at Redis's clock and at the number of entries.
	lookInterval = 30 * time.Second

	// scanCount is how many entries one command reads: a fraction of a millisecond of Redis's time.
	scanCount = 500

	// scanTries is how often the entries are read where they change meanwhile, before the next poll tries.
	scanTries = 3
)

var errReply = &limiter.UndecidedError{Kind: "other", Err: errors.New("redis replies in another form")}

// run runs a script on both keys.
func (l *Live) run(ctx context.Context, script string, args ...any) ([]any, error) {
	command := append([]any{"eval", script, 2, l.keys.version, l.keys.entries}, args...)
	reply, err := l.store.Command(ctx, 3, command...)
	if err != nil {
		return nil, err
	}
	values, ok := reply.([]any)
	if !ok {
		return nil, errReply
	}
	return values, nil
}

// get reads the version.
func (l *Live) get(ctx context.Context) (version, error) {
	reply, err := l.store.Command(ctx, 1, "get", l.keys.version)
	text, _ := reply.(string) // nil is no version
	return parseVersion(text), err
}

// sync brings this process and Redis to the same version. The caller has the turn.
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

// look reads the version and the number of entries, and Redis's clock.
func (l *Live) look(ctx context.Context) (v version, entries int, err error) {
	values, err := l.run(ctx, lookScript)
	if err != nil {
		return v, 0, err
	}
	if len(values) != 4 {
		return v, 0, errReply
	}
	if err := l.readTime(values[2:]); err != nil {
		return v, 0, err
	}
	return parseVersion(fmt.Sprint(values[0])), int(number(values[1])), nil
}

// readTime reads the two values of TIME.
func (l *Live) readTime(values []any) error {
	seconds, micros := number(values[0]), number(values[1])
	if seconds <= 0 {
		return errReply
	}
	l.learnTime(time.Unix(seconds, micros*int64(time.Microsecond)))
	return nil
}

// number reads a number of a reply; 0 where it is none.
func number(value any) int64 {
	n, _ := strconv.ParseInt(fmt.Sprint(value), 10, 64)
	return n
}

// verify finds out whether entries have got lost in Redis, by an eviction or by hand, and restores them.
func (l *Live) verify(ctx context.Context) error {
	v, entries, err := l.look(ctx)
	h := l.held.Load()
	if err != nil || v.number != h.number || entries == len(h.stored) || h.partial {
		return err
	}
	return l.restore(ctx, h.number+1)
}

// load reads all entries. A version that is the same before and after proves that none has changed
// meanwhile.
func (l *Live) load(ctx context.Context) error {
	for range scanTries {
		before, _, err := l.look(ctx)
		if err != nil {
			return err
		}
		stored, err := l.scan(ctx)
		if err != nil {
			return err
		}
		after, err := l.get(ctx)
		if err != nil {
			return err
		}
		if before == after {
			l.apply(holding{version: after, partial: len(stored) != after.count, stored: stored})
			return nil
		}
	}
	return nil // they change all the time; the next poll reads them
}

// scan reads the entries in pieces.
func (l *Live) scan(ctx context.Context) (map[string]string, error) {
	stored := map[string]string{}
	for cursor := "0"; ; {
		reply, err := l.store.Command(ctx, 1, "hscan", l.keys.entries, cursor, "count", scanCount)
		if err != nil {
			return nil, err
		}
		page, ok := reply.([]any)
		if !ok || len(page) != 2 {
			return nil, errReply
		}
		values, ok := page[1].([]any)
		if !ok || len(values)%2 != 0 {
			return nil, errReply
		}
		for i := 0; i < len(values); i += 2 {
			stored[fmt.Sprint(values[i])] = fmt.Sprint(values[i+1])
		}
		if cursor = fmt.Sprint(page[0]); cursor == "0" {
			return stored, nil
		}
	}
}

// restore writes the entries that this process knows to a Redis that has lost them. It gives them a
// version, which is another one where nodes with fewer entries have to read them again.
func (l *Live) restore(ctx context.Context, number int64) error {
	args := []any{"eval", restoreScript, 2, l.keys.version, l.keys.entries, strconv.FormatInt(number, 10)}
	h := *l.held.Load()
	for field, value := range h.stored {
		args = append(args, field, value)
	}
	reply, err := l.store.Command(ctx, 3, args...)
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
