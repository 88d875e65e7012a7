package overrides

import (
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// apply replaces the overrides by those of another version, and reports the changes. Entries that are the same keep their
// variants of policies. The caller has the turn.
func (l *Live) apply(h holding) {
	before := l.held.Load()
	h.entries = make(map[string]*Entry, len(h.stored))
	changed := map[string][]Target{} // by policy
	for field, value := range h.stored {
		earlier, known := before.stored[field]
		same := known && earlier == value
		if e := before.entries[field]; e != nil && same {
			h.entries[field] = e
			continue
		}
		e, err := parseEntry(field, value)
		switch {
		case err == nil:
			h.entries[field] = e
			changed[e.Target.Policy] = append(changed[e.Target.Policy], e.Target)
		case !same && l.hooks.OnUnreadable != nil:
			l.hooks.OnUnreadable(err)
		}
	}
	for field, e := range before.entries {
		if h.entries[field] == nil {
			changed[e.Target.Policy] = append(changed[e.Target.Policy], e.Target)
		}
	}
	l.showing.Lock()
	l.held.Store(&h)
	l.Applied.Store(newSnapshot(l.inForce()))
	l.showing.Unlock()
	l.reportChanges(changed)
}

// fewChanges is how many clients of a policy are reported one by one.
const fewChanges = 64

// reportChanges calls OnChange. If keys are hashed, the clients' keys are not known.
func (l *Live) reportChanges(changed map[string][]Target) {
	if l.hooks.OnChange == nil {
		return
	}
	for policy, targets := range changed {
		var keys []limiter.EncodedKey
		for _, t := range targets {
			if l.hashed || t.All() || t.Range.IsValid() || len(targets) > fewChanges {
				keys = nil
				break
			}
			keys = append(keys, t.Key())
		}
		l.hooks.OnChange(policy, keys...)
	}
}
