package options

import (
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

func TestDurationMeant(t *testing.T) {
	for word, want := range map[string]string{
		"60": "60s", "1minute": "1m", "hour": "1h", "1w": "7d", "15min": "15m", "2weeks": "14d",
		"1.5h": "1.5h", "1H": "1h", "30days": "30d", "1day": "1d",
		"1h30m": "1h30m", "7d": "7d", "second": "1s", "90SECONDS": "90s", "100msec": "100ms", "0.5week": "3.5d", "1mo": "30d", "2y": "730d",
		"": "", "0": "", "0s": "", "-1m": "", "soon": "", "1 m": "", "1parsec": "", ".": "", "1..5h": "", "everyone": "",
	} {
		assert.Equal(t, DurationMeant(word), want, "the duration that is meant")
	}
}
