package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestReliability_kinds compares the page's kinds with the list that Go programs read.
func TestReliability_kinds(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(caddytest.ReadFile(t, "docs/reliability.md"), "\n## Kinds of failures\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^- `([a-z]+)`: ").FindAllStringSubmatch(section, -1) {
		listed = append(listed, row[1])
	}
	_, comment, _ := strings.Cut(caddytest.ReadFile(t, "limiter/limiter.go"), "one word for metrics: ")
	comment, _, _ = strings.Cut(comment, "for a request that was not sent")
	kinds := regexp.MustCompile(`[a-z]+`).FindAllString(comment, -1)
	kinds = slices.DeleteFunc(kinds, func(word string) bool { return word == "or" })
	slices.Sort(listed)
	slices.Sort(kinds)
	assert.Equal(t, listed, kinds, "the kinds of the page")
}
