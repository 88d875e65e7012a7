package redis_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// TestRedis_values compares names, types and bytes of the keys in Redis with those that older nodes read and write.
// UPDATE_GOLDEN=1 writes the file: nodes of the version before then share no keys with new ones.
func TestRedis_values(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, _ := stores.NewRedis(t, server)
	var kept []limiter.Settings
	for _, algorithm := range limiter.Algorithms() {
		kept = append(kept, limiter.Settings{Name: "plain-" + algorithm, Algorithm: algorithm, Limit: 10, Window: time.Hour},
			limiter.Settings{Name: "ban-" + algorithm, Algorithm: algorithm, Limit: 1, Window: time.Hour, Ban: []time.Duration{time.Minute, time.Hour}, BanAfter: 1})
	}
	for _, calendar := range limiter.Calendars() {
		kept = append(kept, limiter.Settings{Name: "calendar-" + calendar, Algorithm: limiter.FixedWindow, Limit: 10, Calendar: calendar, Location: time.UTC})
	}
	for name, calendar := range map[string]string{"day-0600": "day@06:00", "week-3": "week@wednesday", "month-15": "month@15"} {
		kept = append(kept, limiter.Settings{Name: "start-" + name, Algorithm: limiter.FixedWindow, Limit: 10, Calendar: calendar, Location: time.UTC})
	}
	for _, settings := range kept {
		p := storetest.NewPolicy(t, settings)
		for second, weight := range []int64{3, 1, 1} {
			weight = min(weight, p.Settings.Limit)
			s.SetClock(storetest.Epoch + 1_234_567 + int64(second)*1_500_000)
			s.Request(t, limiter.Check{Policy: p, Key: limiter.EncodeKey("a client/%"), Weight: weight})
		}
	}
	path := filepath.Join("..", "failover", "testdata", "redis_values.txt") // its name is promised, see CONTRIBUTING.md
	got := dumpRedis(t, server)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		assert.Must(t, os.WriteFile(path, []byte(got), 0o644)) //nolint:gosec // it holds no secret
	}
	want, err := os.ReadFile(path)
	assert.Must(t, err)
	before := strings.Split(string(want), "\n")
	for _, line := range strings.Split(got, "\n") {
		assert.ErrorIf(t, !slices.Contains(before, line), "not in %s: %s", path, line)
	}
	assert.ErrorIf(t, strings.Count(got, "\n") != len(before)-1, "%d keys, %s has %d", strings.Count(got, "\n"), path, len(before)-1)
}

// dumpRedis returns a line for each key: its name, type and bytes.
func dumpRedis(t *testing.T, server *redistest.Server) string {
	t.Helper()
	ctx, client, text := context.Background(), server.Client(t), ""
	keys, err := client.Keys(ctx, "t:*").Result()
	assert.Must(t, err)
	slices.Sort(keys)
	for _, key := range keys {
		kind, err := client.Type(ctx, key).Result()
		assert.Must(t, err)
		value := ""
		switch kind {
		case "string":
			bytes, err := client.Get(ctx, key).Bytes()
			assert.Must(t, err)
			value = fmt.Sprintf("%x", bytes)
		case "list":
			entries, err := client.LRange(ctx, key, 0, -1).Result()
			assert.Must(t, err)
			value = fmt.Sprintf("%x", entries)
		default:
			t.Errorf("%s is a %s", key, kind)
		}
		text += key + " " + kind + " " + value + "\n"
	}
	return text
}
