package rule

import (
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"5MB": 5_000_000, "500MiB": 524_288_000, "1kB": 1000, "1KB": 1000, "1kib": 1024, "2gb": 2_000_000_000, "0.29GB": 290_000_000,
		"1.5TiB": 1_649_267_441_664, "7B": 7, "4PiB": 1 << 52, "1.1MB": 1_100_000, "0B": 0,
	} {
		got, err := ParseSize(text)
		assert.ErrorIf(t, err != nil || got != want, "%s: got %d, error %v; want %d", text, got, err, want)
	}
	for _, text := range []string{
		"", "5", "5M", "5m", "5Mi", "MB", "5 MB", "-5MB", "+5MB", "1e3B", "1.5B", "0.0001kB",
		"1iB", "5MBs", "5,000MB", "999999999999PB", "0x5MB", ".5MB", "5.MB", "5MB\n", "٥MB",
	} {
		got, err := ParseSize(text)
		assert.ErrorIf(t, err == nil, "%q is a size of %d", text, got)
	}
}

func TestFormatSize(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0B", 1: "1B", 1000: "1000B", 1024: "1KiB", 1536: "1536B", 128 << 20: "128MiB", 3 << 29: "1536MiB", 1 << 40: "1TiB", 5 << 50: "5120TiB",
	} {
		assert.Equal(t, FormatSize(bytes), want, "%d bytes", bytes)
		got, err := ParseSize(want)
		assert.ErrorIf(t, err != nil || got != bytes, "%s: got %d, error %v; want %d", want, got, err, bytes)
	}
}

// TestSizes_of_placeholders has limits and bursts that requests bring along, of policies that count bytes and others.
func TestSizes_of_placeholders(t *testing.T) {
	settings := limiter.Settings{Name: "p", Limit: 1000, Window: time.Hour, Algorithm: "gcra", Dynamic: true}
	policy := assert.NoError(limiter.NewPolicy(settings))(t)
	for source, want := range map[string]int64{ResponseBytes: 5_000_000, "": 1000} {
		r, repl := keyRequest("192.0.2.1", map[string]string{"p.limit": "5MB", "p.weight": "5MB"})
		n := numbers{Weight: 7, Variants: NewVariants(policy)}
		n.LimitFrom = assert.NoError(ParsePlaceholder("limit", "{p.limit}"))(t)
		n.WeightFrom = assert.NoError(ParsePlaceholder("weight", "{p.weight}"))(t)
		rule := Rule{Policy: policy, Numbers: n, Cost: assert.NoError(ParseCost(source, 0))(t)}
		set := NewSet([]Rule{rule})
		got, status := set.policyForRequest(&rule, &request{Request: r, repl: repl})
		assert.ErrorIf(t, got.Limit() != want || status != Counts, "cost %q: limit %d, status %v; want %d", source, got.Limit(), status, want)
		assert.Equal(t, set.weightForRequest(&rule, &request{Request: r, repl: repl}, policy), int64(7), "the weight with cost %q", source)
	}
}
