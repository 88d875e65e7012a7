package redisratelimit

import (
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/requestbody"
)

// TestBody_bounds has limiters read bodies by the option, by its defaults, and by less where max_bodies has no room for these.
func TestBody_bounds(t *testing.T) {
	for _, test := range []struct {
		app, body string
		want      requestbody.Bounds
	}{
		{`{}`, `null`, requestbody.Bounds{Size: 1 << 20, Within: 10 * time.Second}},
		{`{}`, `{}`, requestbody.Bounds{Size: 1 << 20, Within: 10 * time.Second}},
		{`{}`, `{"max_size":16777216}`, requestbody.Bounds{Size: 16 << 20, Within: 10 * time.Second}},
		{`{}`, `{"timeout":"1h"}`, requestbody.Bounds{Size: 1 << 20, Within: time.Hour}},
		{`{}`, `{"max_size":1,"timeout":1}`, requestbody.Bounds{Size: 1, Within: 1}},
		{`{"memory":{"max_bodies":1048576}}`, `null`, requestbody.Bounds{Size: 128 << 10, Within: 10 * time.Second}},
		{`{"memory":{"max_bodies":1048576}}`, `{"timeout":"1s"}`, requestbody.Bounds{Size: 128 << 10, Within: time.Second}},
		{`{"memory":{"max_bodies":1048576}}`, `{"max_size":131072}`, requestbody.Bounds{Size: 128 << 10, Within: 10 * time.Second}},
		{`{"memory":{"max_bodies":536870912}}`, `null`, requestbody.Bounds{Size: 1 << 20, Within: 10 * time.Second}},
		{`{"memory":{"max_bodies":536870912}}`, `{"max_size":67108864}`, requestbody.Bounds{Size: 64 << 20, Within: 10 * time.Second}},
		{`{"memory":{"max_keys":5}}`, `null`, requestbody.Bounds{Size: 1 << 20, Within: 10 * time.Second}},
	} {
		h := loadHandler(t, lastingContext(t, test.app), `{"policies":[{"limit":5,"window":"24h"}],"body":`+test.body+`}`)
		assert.Equal(t, h.limiter.BodyBounds, test.want, "the bounds of %s in %s", test.body, test.app)
		assert.ErrorIf(t, h.limiter.Bodies != bodies, "the limiter has an account of its own")
	}
}
