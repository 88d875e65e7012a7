package overrides

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
)

// This file has the overrides that one node applies by itself while Redis is away. They are never written to Redis, and
// end when Redis is read again.

// Away reports whether the error of a change is an outage: Redis did not answer, or it is loading its data. A missing
// permission, or a server that refuses writes, is no outage.
func Away(err error) bool {
	switch limiter.Kind(err) {
	case "timeout", "refused", "connection", "loading", "masterdown", "clusterdown":
		return true
	case "auth":
		return !redis.Answered(err) || strings.Contains(err.Error(), "WRONGPASS") || strings.Contains(err.Error(), "NOAUTH")
	}
	return false
}

// PutOnNode sets an override on this node alone, until Redis is read again. It replaces an override of the same target in
// Redis.
func (l *Live) PutOnNode(t Target, s Spec, lasts time.Duration) (*Entry, error) {
	body, err := s.body()
	if err != nil {
		return nil, err
	}
	until := time.Time{}
	if lasts > 0 {
		until = l.Now().Add(lasts)
	}
	e, err := parseEntry(t.field(), format(until, body))
	if err != nil {
		return nil, err
	}
	e.NodeOnly = true
	l.showing.Lock()
	defer l.showing.Unlock()
	entries := l.inForce()
	if entries[t.field()] == nil && len(entries) >= MaxEntries {
		return nil, ErrFull
	}
	if err := hasRoom(entries, t, l.Now()); err != nil {
		return nil, err
	}
	own := maps.Clone(l.own)
	if own == nil {
		own = map[string]*Entry{}
	}
	own[t.field()] = e
	l.setOwn(own)
	return e, nil
}

// RemoveOnNode ends an override that applies on this node alone, and reports whether there was one.
func (l *Live) RemoveOnNode(t Target) (removed bool) {
	l.showing.Lock()
	defer l.showing.Unlock()
	if l.own[t.field()] == nil {
		return false
	}
	own := maps.Clone(l.own)
	delete(own, t.field())
	l.setOwn(own)
	return true
}

// inForce returns the overrides of Redis, replaced by those of this node alone. The caller holds l.showing, and does not
// change the map.
func (l *Live) inForce() map[string]*Entry {
	entries := l.held.Load().entries
	if len(l.own) > 0 {
		entries = maps.Clone(entries)
		if entries == nil {
			entries = map[string]*Entry{}
		}
		maps.Copy(entries, l.own)
	}
	return entries
}

// setOwn replaces the overrides of this node alone, and reports the changes. The caller holds l.showing.
func (l *Live) setOwn(own map[string]*Entry) {
	changed := map[string][]Target{}
	for field, e := range l.own {
		if own[field] != e {
			changed[e.Target.Policy] = append(changed[e.Target.Policy], e.Target)
		}
	}
	for field, e := range own {
		if l.own[field] == nil {
			changed[e.Target.Policy] = append(changed[e.Target.Policy], e.Target)
		}
	}
	l.own = own
	l.Applied.Store(newSnapshot(l.inForce()))
	l.reportChanges(changed)
}

// endOwn ends the overrides of this node alone, because Redis is read again.
func (l *Live) endOwn() {
	l.showing.Lock()
	ended := len(l.own)
	if ended > 0 {
		l.setOwn(nil)
	}
	l.showing.Unlock()
	if ended > 0 && l.hooks.OnNodeOnlyEnd != nil {
		l.hooks.OnNodeOnlyEnd(ended)
	}
}

// inherit takes over the overrides of this node alone from an earlier configuration, which may be nil.
func (l *Live) inherit(earlier *Live) {
	if earlier == nil {
		return
	}
	earlier.showing.Lock()
	own := maps.Clone(earlier.own)
	earlier.showing.Unlock()
	if len(own) == 0 {
		return
	}
	l.showing.Lock()
	defer l.showing.Unlock()
	maps.Copy(own, l.own)
	l.setOwn(own)
}

// sync brings this process and Redis to the same version. The caller has the turn.
func (l *Live) sync(ctx context.Context) error {
	err := l.compare(ctx)
	if err == nil {
		l.endOwn()
	}
	return err
}
