package replay

import "github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"

// shownPlaceholder is how much of a placeholder is shown, in characters.
const shownPlaceholder = 80

// windowText returns the window that was tried, as that of a policy.
func (s *suggestions) windowText() string {
	return display.WindowText(s.Window, s.Calendar, s.TimeZone)
}

// shownKinds is how many kinds of lines are shown that cannot be read, and of those that are no requests.
const shownKinds = 5
