package rule

import (
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestNewPlaceholder_allocates reads names that are spelt well, which each key of thousands of policies has, by tables: no
// expression runs, and nothing is built for each known name.
func TestNewPlaceholder_allocates(t *testing.T) {
	for _, name := range []string{"http.request.uri.query.k", "http.request.header.X-Key", "http.auth.user.id", "http.vars.client_ip"} {
		read := func() { assert.NoError(newPlaceholder("key", name))(t) }
		read() // the tables
		got := testing.AllocsPerRun(100, read)
		assert.ErrorIf(t, got > 60, "{%s} takes %v allocations, want 60 at most", name, got)
	}
}
