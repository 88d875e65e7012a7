package accesslog

import "github.com/redis-ratelimit/caddy-redis-ratelimit/internal/escape"

// Printable is [escape.Short].
func Printable(text string, most int) string { return escape.Short(text, most) }
