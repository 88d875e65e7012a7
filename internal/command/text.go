package command

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

// waitTime writes a waiting time in seconds. Zero is now, and a negative time never ends.
func waitTime(seconds float64) string {
	switch {
	case seconds < 0:
		return "never"
	case seconds == 0:
		return "now"
	}
	return display.Seconds(seconds)
}

// inTime writes a waiting time as part of a sentence.
func inTime(seconds float64) string {
	if seconds <= 0 {
		return waitTime(seconds)
	}
	return "in " + display.Seconds(seconds)
}

// pairs writes the value of a key in Redis as name=value, in the order of the names, without its lists and objects.
func pairs(value map[string]any) string {
	parts := make([]string, 0, len(value))
	for _, name := range slices.Sorted(maps.Keys(value)) {
		switch value[name].(type) {
		case []any, map[string]any:
			continue // it has a table of its own, or a part of one
		}
		text := fmt.Sprint(value[name])
		if number, ok := value[name].(float64); ok {
			text = display.Decimal(number, 6)
		}
		parts = append(parts, name+"="+text)
	}
	return strings.Join(parts, " ")
}
