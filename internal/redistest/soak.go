package redistest

import "os"

// Rounds returns how often a test repeats: few, or many where SOAK=long is set, as make soak does.
func Rounds[N ~int | ~int64 | ~uint64](few, many N) N {
	if os.Getenv("SOAK") == "long" {
		return many
	}
	return few
}
