//go:build race

package gate

// poisonsExchanges has no request use the exchange of an earlier one, under the race detector: what still refers to an
// exchange that was given back finds it emptied, and fails.
const poisonsExchanges = true
