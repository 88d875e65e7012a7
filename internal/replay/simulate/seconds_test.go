package simulate_test

import (
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

// TestReplay_says_how_far_whole_seconds_may_be_off plays a log in whole seconds a second time, with all requests at the start
// of their second, where a window is short.
func TestReplay_says_how_far_whole_seconds_may_be_off(t *testing.T) {
	run := func(site string, o accesslog.ReaderOptions, again func() (replay.Engine, error)) *replay.Result {
		r := simulateCaddyfile(t, site)
		o.TimeLayouts = r.LogOptions().TimeLayouts
		reader := assert.NoError(accesslog.Open(o))(t)
		t.Cleanup(func() { _ = reader.Close() })
		return assert.NoError(replay.Run(reader, r, replay.RunOptions{Again: again}))(t)
	}
	for _, tt := range []struct {
		limit, algorithm string
		matters          bool
	}{
		{"3 10s", "sliding_window_counter", true}, {"3 1s", "token_bucket", true}, {"10 1m", "sliding_window_log", true}, {"10 2m", "gcra", false},
		{"600 1h {\n\t\tburst 2\n\t\talgorithm gcra\n\t}", "", true},
	} {
		site := strings.Replace(nasaSite(tt.limit, tt.algorithm), " {\n\t\talgorithm \n\t}\n", "\n", 1)
		played := 0
		again := func() (replay.Engine, error) {
			played++
			return simulateCaddyfile(t, site), nil
		}
		got := run(site, accesslog.ReaderOptions{Files: []string{nasaLog()}}, again)
		starts := run(site, accesslog.ReaderOptions{Files: []string{nasaLog()}, AtSecondStart: true}, nil)
		off := max(got.Denied-starts.Denied, starts.Denied-got.Denied)
		if !tt.matters {
			off = 0
		}
		assert.ErrorIf(t, (played == 1) != tt.matters || got.DeniedOff != off || got.Policies[0].DeniedOff != off, "%s: %d ± %d, played %d times again; want ± %d",
			tt.limit, got.Denied, got.DeniedOff, played, off)
		exact := run(site, accesslog.ReaderOptions{Files: []string{"-"}, Stdin: strings.NewReader(
			`{"ts":1750000000.5,"request":{"client_ip":"192.0.2.1","uri":"/","method":"GET"},"size":1}`)}, again)
		assert.ErrorIf(t, exact.DeniedOff != 0 || played > 1, "%s: exact times are off", tt.limit)
	}
}
