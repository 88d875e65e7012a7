//go:build !race

package gate

// poisonsExchanges says that exchanges are emptied and not used again, as under the race detector.
const poisonsExchanges = false
