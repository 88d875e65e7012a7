package overrides

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// redisKeys are the keys that the overrides lie in, that of the marker, and one that is written to try whether Redis takes
// writes.
type redisKeys struct{ version, entries, marker, try string }

func newRedisKeys(format limiter.KeyFormat) redisKeys {
	const tag = "overrides"
	return redisKeys{
		version: format.Reserved(tag, "version"), entries: format.Reserved(tag, "entries"), marker: format.Reserved(tag, "marker"),
		try: format.Reserved(tag, "try"),
	}
}

//go:embed change.lua
var changeScript string

//go:embed look.lua
var lookScript string

//go:embed restore.lua
var restoreScript string

//go:embed lost.lua
var lostScript string

// scanCount is how many entries one command reads: a fraction of a millisecond of Redis's time.
const scanCount = 500

var errReply = &limiter.UndecidedError{Kind: "other", Err: errors.New("redis replies in another form")}

// eval runs a script on both keys.
func (l *Live) eval(ctx context.Context, script string, args ...any) (any, error) {
	return l.store.Command(ctx, 3, append([]any{"eval", script, 2, l.keys.version, l.keys.entries}, args...)...)
}

// run runs a script that returns so many values. The last two are those of TIME.
func (l *Live) run(ctx context.Context, script string, count int, args ...any) ([]any, error) {
	reply, err := l.eval(ctx, script, args...)
	if err != nil {
		return nil, err
	}
	values, _ := reply.([]any)
	if len(values) != count || number(values[count-2]) <= 0 {
		return nil, errReply
	}
	l.learnTime(time.Unix(number(values[count-2]), number(values[count-1])*int64(time.Microsecond)))
	return values, nil
}

// get reads the version. The caller has the turn.
func (l *Live) get(ctx context.Context) (version, error) {
	reply, err := l.store.Command(ctx, 1, "get", l.keys.version)
	text, _ := reply.(string) // nil is no version
	if err == nil && text != l.version {
		l.version = text
		l.news.Store(text != "")
	}
	return parseVersion(text), err
}

// look reads the version and the number of entries, and Redis's clock.
func (l *Live) look(ctx context.Context) (v version, entries int, err error) {
	values, err := l.run(ctx, lookScript, 4)
	if err != nil {
		return v, 0, err
	}
	return parseVersion(fmt.Sprint(values[0])), int(number(values[1])), nil
}

// number reads a number of a reply; 0 where it is none.
func number(value any) int64 {
	n, _ := strconv.ParseInt(fmt.Sprint(value), 10, 64)
	return n
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
