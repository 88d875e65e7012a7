package main

import (
	"math/rand/v2"
	"time"
)

// theme is what a source of random numbers is for. Each has its own, so that what one draws shifts no other.
type theme uint64

const (
	ofPeople theme = iota + 1
	ofFlood
	ofReaders
	ofPrograms // and one after the other from here
)

// newRandom returns a run's source for a theme.
func newRandom(seed uint64, t theme) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(t))) }

// untilNext returns the time to the next of events that come independently, so many a second.
func untilNext(random *rand.Rand, perSecond float64) time.Duration {
	return time.Duration(random.ExpFloat64() / perSecond * float64(time.Second))
}

// between returns a time from one up to another.
func between(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)))
}
