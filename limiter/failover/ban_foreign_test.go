package failover

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

// TestForeignValue_bans has values that no ban is in place of one: they fail that client's requests alone,
// no list names them, and an unban or a reset deletes them.
func TestForeignValue_bans(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	r, client := openRedis(t, server, 10*time.Second), server.Client(t)
	f := New(r, memory.New(), Options{})
	p := hourBan(t, "foreign", 1)
	name := r.BanKey(p, limiter.EncodeKey("k"))
	far := float64(time.Now().Add(100 * 365 * 24 * time.Hour).UnixMicro())
	for what, write := range map[string]func() error{
		"list":     func() error { return client.LPush(t.Context(), name, "x").Err() },
		"hash":     func() error { return client.HSet(t.Context(), name, "f", "x").Err() },
		"empty":    func() error { return client.Set(t.Context(), name, "", 0).Err() },
		"long":     func() error { return client.Set(t.Context(), name, strings.Repeat("x", 1<<20), 0).Err() },
		"nan":      func() error { return client.Set(t.Context(), name, doubles(math.NaN(), 0, 0, 0, 0), 0).Err() },
		"infinite": func() error { return client.Set(t.Context(), name, doubles(0, 0, 0, math.Inf(1), 0), 0).Err() },
		"negative": func() error { return client.Set(t.Context(), name, doubles(0, 0, -1, 0, 0), 0).Err() },
		"counted":  func() error { return client.Set(t.Context(), name, doubles(0, 0, 0, 0, 0, math.NaN(), 1), 0).Err() },
	} {
		for _, lift := range []string{"unban", "unban all", "reset"} {
			client.FlushDB(t.Context())
			noError(t, write())
			checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k")}}
			if _, err := r.Decide(t.Context(), checks); limiter.Kind(err) != "value" || !limiter.FailedAlone(err) {
				t.Errorf("%s: got %v", what, err)
			}
			if _, source := oneOf(t, f, p, "other"); source != limiter.SourceRedis {
				t.Errorf("%s: another client is decided by %s", what, source)
			}
			if list, complete, err := f.Banned(t.Context(), ""); len(list) != 0 || !complete || err != nil {
				t.Errorf("%s: listed are %+v, %v, %v", what, list, complete, err)
			}
			var err error
			switch lift {
			case "unban":
				_, err = f.Unban(t.Context(), p, limiter.EncodeKey("k"))
			case "unban all":
				_, err = f.UnbanAll(t.Context(), "foreign")
			default:
				_, err = f.Reset(t.Context(), p, limiter.EncodeKey("k"))
			}
			if n := client.Exists(t.Context(), name).Val(); n != 0 || err != nil {
				t.Errorf("%s: after %s: it is there: %v, %v", what, lift, n, err)
			}
			if result, source := oneOf(t, f, p, "k"); !result.Passes() || source != limiter.SourceRedis {
				t.Errorf("%s: after %s: %+v by %s", what, lift, result, source)
			}
		}
	}
	noError(t, client.Set(t.Context(), name, doubles(0, 0, 1, far, far), 0).Err())
	if result, _ := oneOf(t, f, p, "k"); !result.Passes() {
		t.Errorf("a ban of a wrong clock: %+v", result)
	}
}

// TestUnbanAll_prefix has a prefix of characters that a search would take for wildcards.
func TestUnbanAll_prefix(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client := server.Client(t)
	p := hourBan(t, "prefix", 1)
	for prefix, similar := range map[string]string{"a*": "ab", "a?": "ab", "[ab]": "a", `a\`: "a", "a[": "a"} {
		f := New(newTestRedis(t, server, time.Second, limiter.KeyFormat{Prefix: prefix}), memory.New(), Options{})
		other := New(newTestRedis(t, server, time.Second, limiter.KeyFormat{Prefix: similar}), memory.New(), Options{})
		for _, g := range []*Store{f, other} {
			for range 3 {
				oneOf(t, g, p, "k")
			}
		}
		if list, _, err := f.Banned(t.Context(), ""); err != nil || len(list) != 1 {
			t.Errorf("%s: listed are %+v, %v", prefix, list, err)
		}
		before := client.DBSize(t.Context()).Val()
		if n, err := f.UnbanAll(t.Context(), "prefix"); n != 1 || err != nil {
			t.Errorf("%s: %d bans lifted, %v", prefix, n, err)
		}
		if found, err := f.ResetAll(t.Context(), "prefix"); found.Shared != 1 || err != nil {
			t.Errorf("%s: reset are %+v, %v", prefix, found, err)
		}
		if after := client.DBSize(t.Context()).Val(); after != before-2 {
			t.Errorf("%s: %d keys are deleted, want 2", prefix, before-after)
		}
		client.FlushDB(t.Context())
	}
}
