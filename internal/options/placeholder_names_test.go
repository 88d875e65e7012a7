package options

import (
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestPlaceholderNames_checkShort leaves short names to handlers of others that set such placeholders.
func TestPlaceholderNames_checkShort(t *testing.T) {
	var n PlaceholderNames
	n.addFrom(map[string]any{"routes": []any{map[string]any{"handler": "headers", "set": "{json.a}"}, map[string]any{"handler": AppName, "key": "{json.b}"}}})
	assert.ErrorIf(t, n.CheckShort(true) == nil || len(n.short) != 1, "the names are %v", n.short)
	assert.Must(t, n.CheckShort(false))
	n.addFrom(map[string]any{"source": "{form.a}", "destinations": []string{"{limit}"}})
	assert.ErrorIf(t, n.CheckShort(false) == nil, "a map has a short name")
	n.addFrom(map[string]any{"handler": "json_parse"})
	assert.Must(t, n.CheckShort(true))
}

// TestPlaceholderNames_decisions finds the placeholders of what was decided, and no others.
func TestPlaceholderNames_decisions(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "{http.redis_ratelimit.json.a} {http.redis_ratelimit.form.b}": false, "{http.rate_limit.name}": false,
		"{http.redis_ratelimit.policy}": true, "{http.redis_ratelimit.json.a}, {http.redis_ratelimit.reason}": true,
	} {
		var n PlaceholderNames
		n.addFrom(map[string]any{"handler": "static_response", "body": text})
		assert.ErrorIf(t, n.Decisions != want, "%q: got %v", text, n.Decisions)
	}
}
