package options

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/secretfile"
)

// Duration reads a duration that is not below the least. The bounds say what would be right.
func Duration(d *caddyfile.Dispenser, option, value string, least time.Duration, bounds string) (caddy.Duration, error) {
	duration, err := caddy.ParseDuration(value)
	if err == nil && duration >= least {
		return caddy.Duration(duration), nil
	}
	meant := DurationMeant(value)
	isLong := option == "window" || option == "wait"
	if wholeNumber.MatchString(value) && least > 0 && least < time.Second && !isLong { // of a timeout or a lease
		meant = value + "ms"
	}
	if err != nil && meant != "" {
		if duration, err = caddy.ParseDuration(meant); err == nil && duration >= least {
			return 0, d.Errf("%s %s: use %s; write %[1]s %[4]s", option, secretfile.Redact(value), bounds, meant)
		}
	}
	return 0, d.Errf("%s %s: use %s", option, secretfile.Redact(value), bounds)
}

var (
	wholeNumber   = regexp.MustCompile(`^\d+$`)
	numberAndUnit = regexp.MustCompile(`^(\d*(?:\.\d+)?)([A-Za-z]*)$`)

	// units are the words for a unit of time, behind its name in a duration.
	units = [][2]string{
		{"ms", "ms msec millis millisecond milliseconds"},
		{"s", "s sec secs second seconds"},
		{"m", "m min mins minute minutes minutely"},
		{"h", "h hr hrs hour hours hourly"},
		{"d", "d day days daily"},
		{"7d", "w wk week weeks weekly"},
		{"30d", "mo month months monthly"},
		{"365d", "y yr year years yearly"},
	}
)

// DurationMeant returns the duration above zero that a word is, or is meant for; empty if it is none. A number alone is
// taken for seconds.
func DurationMeant(word string) string {
	if duration, err := caddy.ParseDuration(word); err == nil && duration > 0 {
		return word
	}
	parts := numberAndUnit.FindStringSubmatch(word)
	if parts == nil || word == "" || len(word) > 32 {
		return ""
	}
	number, unit := parts[1], strings.ToLower(parts[2])
	if unit == "" {
		unit = "s"
	}
	if number == "" {
		number = "1"
	}
	i := slices.IndexFunc(units, func(u [2]string) bool { return slices.Contains(strings.Fields(u[1]), unit) })
	n, err := strconv.ParseFloat(number, 64)
	if i < 0 || err != nil || n <= 0 {
		return ""
	}
	name := units[i][0]
	if digits := strings.TrimSuffix(name, "d"); digits != name && digits != "" {
		times, _ := strconv.ParseFloat(digits, 64)
		number, name = strconv.FormatFloat(n*times, 'f', -1, 64), "d"
	}
	return number + name
}
