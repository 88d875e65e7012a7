package redisratelimit

import (
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestBodyNames_checkShort leaves short names to handlers of others that set such placeholders.
func TestBodyNames_checkShort(t *testing.T) {
	var n bodyNames
	n.addFrom(map[string]any{"routes": []any{map[string]any{"handler": "headers", "set": "{json.a}"}, map[string]any{"handler": appName, "key": "{json.b}"}}})
	assert.ErrorIf(t, n.checkShort() == nil || len(n.short) != 1, "the names are %v", n.short)
	n.addFrom(map[string]any{"handler": "json_parse"})
	assert.Must(t, n.checkShort())
}
