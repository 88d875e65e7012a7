package replay

import "github.com/redis-ratelimit/caddy-redis-ratelimit/internal/description"

// shownPlaceholder is how much of a placeholder is shown, in characters.
const shownPlaceholder = 80

// WindowText returns the window that was tried, as that of a policy.
func (s *Suggestions) WindowText() string {
	return description.WindowText(s.Window, s.Calendar, s.TimeZone)
}
