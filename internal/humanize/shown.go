package humanize

import "strings"

// Hidden stands in an error for a value that is not shown.
const Hidden = "[not shown: it may hold a secret]"

// Shown returns a configured value for an error. A URL and a user at a host are hidden: a value on the
// wrong line may hold a password.
func Shown[T ~string](value T) string {
	if strings.Contains(string(value), "://") || strings.Contains(string(value), "@") {
		return Hidden
	}
	return string(value)
}
