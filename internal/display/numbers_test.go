package display

import (
	"math"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

func TestSeconds(t *testing.T) {
	for seconds, want := range map[float64]string{
		0: "0 s", 0.000_001: "< 0.01 ms", 0.000_25: "0.25 ms", 0.009_999: "10 ms", 0.35: "350 ms", 1: "1 s", 12.54: "12.5 s", 59.4: "59.4 s", 59.97: "1 min",
		60: "1 min", 250: "4 min 10 s", 3599.7: "1 h", 3600: "1 h", 3 * 3600: "3 h", 86_400: "24 h", 90_000: "25 h",
		7 * 86_400: "7 d", 100 * 3600: "4 d 4 h",
	} {
		assert.Equal(t, Seconds(seconds), want, "%v seconds", seconds)
	}
	got := Duration(1500 * time.Millisecond)
	assert.ErrorIf(t, got != "1.5 s", "got %q", got)
}

func TestHumanize(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{Count(0), "0"}, {Count(999), "999"}, {Count(1_000), "1,000"}, {Count(int64(-1_234_567)), "-1,234,567"},
		{Counted(1, "request"), "1 request"}, {Counted(2_000, "request"), "2,000 requests"}, {Noun(0, "client"), "clients"},
		{Percent(0, 0), "0 %"}, {Percent(0, 7), "0 %"}, {Percent(7, 7), "100 %"}, {Percent(1, 30_000), "< 0.01 %"},
		{Percent(1, 2_000), "0.05 %"}, {Percent(29_999, 30_000), "99.9 %"}, {Percent(1, 3), "33.3 %"},
		{Decimal(1.50, 4), "1.5"}, {Decimal(100, 0), "100"},
		{Size(0), "0"}, {Size(999), "999"}, {Size(1000), "1kB"}, {Size(1024), "1KiB"}, {Size(1025), "1,025"}, {Size(500 << 20), "500MiB"},
		{Size(1536 << 20), "1536MiB"}, {Size(5_000_000), "5MB"}, {Size(1 << 52), "4PiB"}, {Size(math.MaxInt64), "9,223,372,036,854,775,807"},
		{Compact(time.Minute), "1m"}, {Compact(90 * time.Minute), "1h30m"}, {Compact(time.Hour), "1h"}, {Compact(1500 * time.Millisecond), "1.5s"},
		{Period(time.Minute), "minute"}, {Period(5 * time.Minute), "5 minutes"}, {Period(90 * time.Second), "90 seconds"}, {Period(24 * time.Hour), "day"},
		{Period(1500 * time.Millisecond), "1.5 s"},
	} {
		assert.ErrorIf(t, tt.got != tt.want, "got %q, want %q", tt.got, tt.want)
	}
}

func TestAppendWait(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1: "1 second", time.Second: "1 second", time.Second + 1: "2 seconds", 59 * time.Second: "59 seconds",
		59*time.Second + 1: "1 minute", time.Minute: "1 minute", 61 * time.Second: "1 minute 1 second", 250 * time.Second: "4 minutes 10 seconds",
		time.Hour - time.Second: "59 minutes 59 seconds", time.Hour - 1: "1 hour", time.Hour + 1: "1 hour 1 minute", 3*time.Hour + 2*time.Minute: "3 hours 2 minutes",
		24*time.Hour - 1: "1 day", 24 * time.Hour: "1 day", 24*time.Hour + 1: "1 day 1 hour", 75*time.Hour + time.Minute: "3 days 4 hours",
		math.MaxInt64: "106752 days",
	} {
		assert.Equal(t, string(AppendWait([]byte("in "), d)), "in "+want, "%v", d)
	}
}
