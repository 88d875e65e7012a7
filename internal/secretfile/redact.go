package secretfile

import "strings"

// Redacted stands in an error for a value that may be a secret.
const Redacted = "[not shown: it may hold a secret]"

// Redact returns a configured value for an error, or [Redacted] for a URL or a user at a host: a value on the wrong
// line may hold a password.
func Redact[T ~string](value T) string {
	if strings.Contains(string(value), "://") || strings.Contains(string(value), "@") {
		return Redacted
	}
	return string(value)
}
