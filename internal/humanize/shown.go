package humanize

import "strings"

// Hidden stands in an error for a value that is not shown.
const Hidden = "[not shown: it may hold a secret]"

// Shown is a configured value for an error. A URL and a user at a host are hidden, because a password
// may be in them: such a value stands in the wrong line.
func Shown[T ~string](value T) string {
	if strings.Contains(string(value), "://") || strings.Contains(string(value), "@") {
		return Hidden
	}
	return string(value)
}
