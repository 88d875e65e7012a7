package redisratelimit

import (
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/requestbody"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// Body bounds what is read of a request's body for the values in it.
type Body struct {
	// The largest body in bytes whose values can be used. From 1 to 67,108,864 (64 MiB), and at most an eighth of the app's
	// `max_bodies`. Default: 1,048,576 (1 MiB), or that eighth if it is less.
	MaxSize int64 `json:"max_size,omitempty"`

	// The time in which the body must arrive, above 0, at most 1h. Default: 10s.
	Timeout caddy.Duration `json:"timeout,omitempty"`
}

const (
	defaultBodySize    = 1 << 20
	maxBodySize        = 64 << 20
	defaultBodyTimeout = 10 * time.Second
	maxBodyTimeout     = time.Hour

	// maxBodiesStep is the unit of the max_bodies that errors name.
	maxBodiesStep = 1 << 20
)

// What would be right, in errors.
const (
	bodySizeBounds    = "a size from 1B to 64MiB, such as 1MiB"
	bodyTimeoutBounds = "a duration above 0, up to 1h, such as 10s"
)

// check refuses bounds out of their own bounds. Nil and 0 are the defaults.
func (b *Body) check() error {
	switch {
	case b == nil:
	case b.MaxSize < 0 || b.MaxSize > maxBodySize:
		return fmt.Errorf("body: max_size %d: use bytes from 1 to %d, which is %s", b.MaxSize, maxBodySize, rule.FormatSize(maxBodySize))
	case b.Timeout < 0 || time.Duration(b.Timeout) > maxBodyTimeout:
		return fmt.Errorf("body: timeout %v: use %s", time.Duration(b.Timeout), bodyTimeoutBounds)
	}
	return nil
}

// bounds returns the bounds where all bodies may have that many bytes. It refuses a size for which there is never room.
func (b *Body) bounds(maxBodies int64) (requestbody.Bounds, error) {
	largest := requestbody.LargestBody(maxBodies)
	bounds := requestbody.Bounds{Size: int(min(defaultBodySize, largest)), Within: defaultBodyTimeout}
	if b == nil {
		return bounds, nil
	}
	if b.MaxSize > largest {
		enough := (requestbody.LimitFor(b.MaxSize) + maxBodiesStep - 1) / maxBodiesStep * maxBodiesStep
		return bounds, fmt.Errorf("body %s: a client may hold at most %s, an eighth of max_bodies %s; "+
			"write a smaller size, or memory { max_bodies %s } in the global option", rule.FormatSize(b.MaxSize),
			rule.FormatSize(largest), rule.FormatSize(maxBodies), rule.FormatSize(enough))
	}
	if b.MaxSize > 0 {
		bounds.Size = int(b.MaxSize)
	}
	if b.Timeout > 0 {
		bounds.Within = time.Duration(b.Timeout)
	}
	return bounds, nil
}
