package explain

import (
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/escape"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
)

// Override reports an override; nil for none.
func Override(e *overrides.Entry) *adminapi.OverrideEntry {
	if e == nil {
		return nil
	}
	entry := &adminapi.OverrideEntry{
		Policy: e.Target.Policy, All: e.All(), Limit: e.Limit, Burst: e.Burst,
		Block: e.Action == overrides.Block, Exempt: e.Action == overrides.Exempt,
		Note: e.Note,
	}
	if !e.All() {
		entry.Key = new(escape.Key(e.Key().String()))
	}
	if !e.Until.IsZero() {
		entry.Until = new(e.Until.UTC())
	}
	return entry
}
