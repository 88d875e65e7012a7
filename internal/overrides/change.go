package overrides

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Target returns the target of a client's key. If keys are hashed, the key may also be the hash, as lists of overrides
// show it.
func (l *Live) Target(policy string, key limiter.EncodedKey) Target {
	if p := l.current(policy); p != nil && l.hashed {
		if e := p.byClient[key.String()]; e != nil {
			return e.Target
		}
	}
	return Target{Policy: policy, Client: l.clientOf(key)}
}

// Has reports whether there are overrides of a policy.
func (l *Live) Has(policy string) bool { return l.current(policy) != nil }

// Put sets an override, for a duration or, with 0, until it is removed. The client's counts stay. If Redis does not
// decide, or refuses the change, the error wraps [limiter.ErrUndecided].
func (l *Live) Put(ctx context.Context, t Target, s Spec, lasts time.Duration) (*Entry, error) {
	body, err := s.body()
	if err != nil {
		return nil, err
	}
	value, err := l.change(ctx, t, lasts.Microseconds(), body)
	if err != nil {
		return nil, err
	}
	return parseEntry(t.field(), value) // of the value, since another node may have changed the entry by now
}

// Remove ends an override. The error is [ErrAbsent] if there is none.
func (l *Live) Remove(ctx context.Context, t Target) error {
	_, err := l.change(ctx, t, -1, "")
	return err
}

// List returns the overrides by policy, the override of all clients first. If Redis does not decide, or cannot be read, it
// returns those that this process knows, and the error.
func (l *Live) List(ctx context.Context) ([]*Entry, error) {
	err := l.Decides(ctx)
	if err == nil {
		err = l.Refresh(ctx)
	}
	return l.Known(), err
}

// Known returns the overrides that this process knows, in the order of [Live.List].
func (l *Live) Known() []*Entry {
	entries := l.list()
	slices.SortFunc(entries, func(a, b *Entry) int { return strings.Compare(a.field(), b.field()) })
	return entries
}

// Refresh reads what has changed in Redis.
func (l *Live) Refresh(ctx context.Context) error {
	if l.store == nil {
		return nil
	}
	if err := l.lock(ctx); err != nil {
		return err
	}
	defer l.unlock()
	return l.sync(ctx)
}

// change sets or, with -1 microseconds, removes an entry, and returns its value as it is stored.
func (l *Live) change(ctx context.Context, t Target, micros int64, body string) (value string, err error) {
	if err := l.Decides(ctx); err != nil {
		return "", err
	}
	if err := l.lock(ctx); err != nil {
		return "", err
	}
	defer l.unlock()
	if l.store == nil {
		return l.changeHere(t, micros, body)
	}
	for range scanTries {
		if err := l.sync(ctx); err != nil {
			return "", err
		}
		if err := hasRoom(l.held.Load().entries, t, l.Now()); err != nil && micros >= 0 {
			return "", err
		}
		value, err := l.changeInRedis(ctx, t.field(), micros, body)
		if err == nil {
			l.RemoveOnNode(t) // which would hide the change
		}
		if !errors.Is(err, errBehind) {
			return value, err
		}
	}
	return "", &limiter.UndecidedError{Kind: "other", Err: errors.New("redis loses the overrides again and again")}
}

// changeHere changes an entry in this process.
func (l *Live) changeHere(t Target, micros int64, body string) (value string, err error) {
	now, h, field := l.Now(), l.held.Load(), t.field()
	full := hasRoom(h.entries, t, now)
	stored := maps.Clone(h.stored)
	for other, e := range h.entries {
		if e.ended(now) {
			delete(stored, other)
		}
	}
	_, found := stored[field]
	switch {
	case micros < 0 && !found:
		return "", ErrAbsent
	case micros < 0:
		delete(stored, field)
	case !found && len(stored) >= maxEntries:
		return "", ErrFull
	case full != nil:
		return "", full
	case micros == 0:
		stored[field] = format(time.Time{}, body)
	default:
		stored[field] = format(now.Add(time.Duration(micros)*time.Microsecond), body)
	}
	l.apply(holding{stored: stored})
	return stored[field], nil
}

// errBehind is the error of a change while Redis has lost entries. The change is tried again.
var errBehind = errors.New("redis has lost overrides")

// changeInRedis changes an entry in Redis and here, and returns its value.
func (l *Live) changeInRedis(ctx context.Context, field string, micros int64, body string) (value string, err error) {
	h, now := l.held.Load(), l.Now()
	args := []any{h.number, field, micros, body, maxEntries}
	stored := maps.Clone(h.stored)
	for other, e := range h.entries {
		if e.ended(now) && other != field && len(args) < 2000 {
			args = append(args, other, h.stored[other])
			delete(stored, other)
		}
	}
	values, err := l.run(ctx, changeScript, 6, args...)
	if err != nil {
		return "", err
	}
	before, after := parseVersion(fmt.Sprint(values[1])), parseVersion(fmt.Sprint(values[2]))
	switch values[0] {
	case "behind":
		return "", errBehind
	case "lost":
		if before.number == h.number {
			err = l.restore(ctx, h.number+1)
		} else {
			err = l.load(ctx)
		}
		return "", cmp.Or(err, errBehind)
	case "absent":
		return "", ErrAbsent
	case "full":
		return "", ErrFull
	}
	value = fmt.Sprint(values[3])
	if micros < 0 {
		delete(stored, field)
	} else {
		stored[field] = value
	}
	if before.number == h.number && len(stored) == after.count {
		l.apply(holding{version: after, stored: stored})
	} else {
		_ = l.load(ctx) // another node has changed some too; if this fails, the next poll reads them
	}
	return value, nil
}
