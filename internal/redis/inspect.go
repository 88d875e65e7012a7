package redis

import (
	"context"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// StoredKey is a key in Redis, as it is.
type StoredKey struct {
	// Name is the key's whole name.
	Name string

	// Type is Redis's word for it: string, list, hash.
	Type string

	// TTL is how long the key lives; negative where it never expires.
	TTL time.Duration

	// Value is the stored state in words for operators; nil for a foreign value. Instants are in the
	// form of RFC 3339.
	Value map[string]any
}

// Inspect returns what Redis has stored for a key of a policy; nothing where there is no key.
// Reading takes commands that deciding does not need: TYPE and PTTL.
func (a *Admin) Inspect(ctx context.Context, p *limiter.Policy, key limiter.EncodedKey) ([]StoredKey, error) {
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	stored, err := a.inspect(ctx, a.RedisKey(p, key), func(name, kind string) (map[string]any, error) {
		return a.readStored(ctx, p, name, kind)
	})
	if err == nil && p.Ban != nil {
		var ban []StoredKey
		ban, err = a.inspect(ctx, a.BanKey(p, key), func(name, kind string) (map[string]any, error) {
			return a.readStoredBan(ctx, name, kind)
		})
		stored = append(stored, ban...)
	}
	return stored, dial.Undecided(err)
}

// inspect returns a key and its value, as the function reads it; nothing where there is no key.
func (a *Admin) inspect(ctx context.Context, name string, read func(name, kind string) (map[string]any, error)) ([]StoredKey, error) {
	kind, err := a.client.Type(ctx, name).Result()
	if err != nil || kind == "none" {
		return nil, err
	}
	ttl, err := a.client.PTTL(ctx, name).Result()
	if err != nil {
		return nil, err
	}
	value, err := read(name, kind)
	if err != nil {
		return nil, err
	}
	return []StoredKey{{Name: name, Type: kind, TTL: ttl, Value: value}}, nil
}

// readStored reads a stored state.
func (a *Admin) readStored(ctx context.Context, p *limiter.Policy, name, kind string) (map[string]any, error) {
	logs := p.Algorithm.Logs
	switch {
	case p.CountsRunning:
		return a.readRunning(ctx, p, name, kind)
	case kind == "list" && logs:
		return a.readLog(ctx, p, name)
	case kind != "string" || logs:
		return nil, nil //nolint:nilnil // a foreign value has no description
	}
	text, err := a.client.Get(ctx, name).Result()
	if p.Algorithm.Bursts && len(text) > 24 && len(text)%16 == 8 && len(text) <= 24+16*kernel.MaxHoles {
		text = text[:24] // without the holes of refunds
	}
	if err != nil || len(text)%8 != 0 || len(text) > 24 {
		return nil, ignoreGone(err)
	}
	var values [3]int64
	for i := range len(text) / 8 {
		n := Double(text, i)
		if !(n >= 0 && n <= kernel.Precision) {
			return nil, nil //nolint:nilnil // as above
		}
		values[i] = int64(n)
	}
	s := kernel.State{Numbers: kernel.Numbers{A: values[0], B: values[1], C: values[2]}}
	return p.Algorithm.Kernel.Describe(s, TicksNow(p), &p.Params), nil
}

// readLog reads the ends of a log.
func (a *Admin) readLog(ctx context.Context, p *limiter.Policy, name string) (map[string]any, error) {
	entries, err := a.client.LLen(ctx, name).Result()
	if err != nil || entries == 0 {
		return nil, ignoreGone(err)
	}
	s := kernel.State{Log: &kernel.UnitLog{}}
	for _, index := range []int64{0, -1} {
		text, err := a.client.LIndex(ctx, name, index).Result()
		var entry kernel.LogEntry
		if err != nil || copy(entry[:], text) != len(entry) {
			return nil, ignoreGone(err)
		}
		s.Log.Entries = append(s.Log.Entries, entry)
	}
	described := p.Algorithm.Kernel.Describe(s, TicksNow(p), &p.Params)
	described["entries"] = entries
	return described, nil
}

// ignoreGone drops the error of a key that is gone meanwhile.
func ignoreGone(err error) error {
	if dial.IsNil(err) {
		return nil
	}
	return err
}

// readStoredBan reads a stored state of bans in words for operators.
func (a *Admin) readStoredBan(ctx context.Context, name, kind string) (map[string]any, error) {
	if kind != "string" {
		return nil, nil //nolint:nilnil // a foreign value has no description
	}
	text, err := a.client.Get(ctx, name).Result()
	if err != nil {
		return nil, ignoreGone(err)
	}
	s, ok := DecodeBan(text)
	if !ok {
		return nil, nil //nolint:nilnil // as above
	}
	return s.Describe(), nil
}

// TicksNow returns this machine's time in a policy's ticks.
func TicksNow(p *limiter.Policy) int64 { return time.Now().UnixMicro() / p.Params.Tick }
