package overrides

import (
	"context"
	_ "embed" // the script
	"maps"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
)

// This file has the overrides that one node applies by itself while Redis does not decide, or refuses them. They are never
// written to Redis, and end when Redis decides and takes overrides again.

//go:embed try.lua
var tryScript string

// calmSpan is for how long Redis must have decided and taken overrides before those of this node alone end. A Redis that is
// about full refuses and decides in turn: blocks hold meanwhile.
const calmSpan = redis.DoubtSpan

// PutOnNode sets an override on this node alone, until Redis decides again. It replaces an override of the same target in
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
	if entries[t.field()] == nil && len(entries) >= maxEntries {
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
	l.calmSince = 0
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

// hasOwn reports whether there are overrides of this node alone.
func (l *Live) hasOwn() bool {
	l.showing.Lock()
	defer l.showing.Unlock()
	return len(l.own) > 0
}

// tendOwn ends the overrides of this node alone once Redis has been well for [calmSpan]. The error is that of reading Redis.
func (l *Live) tendOwn(ctx context.Context, err error) {
	if !l.hasOwn() {
		return
	}
	if err == nil {
		err = l.Decides(ctx)
	}
	if err == nil {
		_, err = l.store.Command(ctx, 3, "eval", tryScript, 2, l.keys.try, l.keys.entries)
	}
	if l.isCalm(clock.Now(), err) {
		l.endOwn()
	}
}

// isCalm takes whether Redis is well at a moment, and reports whether it has been for [calmSpan].
func (l *Live) isCalm(now clock.Moment, err error) bool {
	l.showing.Lock()
	defer l.showing.Unlock()
	switch {
	case err != nil:
		l.calmSince = 0
	case l.calmSince == 0:
		l.calmSince = now
	}
	return l.calmSince != 0 && now.Since(l.calmSince) >= calmSpan
}

// endOwn ends the overrides of this node alone.
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
