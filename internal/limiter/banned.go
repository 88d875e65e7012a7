package limiter

import "time"

// Banned is a client that a policy refuses now.
type Banned struct {
	// Policy is the policy's name.
	Policy string

	// Key is the client's key; with [KeyFormat].Secret its HMAC.
	Key EncodedKey

	// Left is how long it is still banned.
	Left time.Duration

	// Offenses is how many bans the client has had so far, with this one.
	Offenses int64
}

// MaxBanned is how many clients a list of the banned holds at most.
const MaxBanned = 10_000
