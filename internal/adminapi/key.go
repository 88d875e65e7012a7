package adminapi

import "github.com/redis-ratelimit/caddy-redis-ratelimit/internal/escape"

// KeyText is [escape.Key].
func KeyText(key string) string { return escape.Key(key) }

// ParseKeyText is [escape.ParseKey].
func ParseKeyText(text string) (string, error) { return escape.ParseKey(text) }
