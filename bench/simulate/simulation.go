package main

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
)

// scenario is what is simulated.
type scenario struct {
	policy    policy
	nodes     int
	keys      int
	rate      float64 // requests of each key a second, over all nodes
	roundTrip int64   // to Redis and back, without what Redis takes
	seconds   float64
	warm      float64 // seconds that are not counted
	leases    bool
	costs     costs
	seed      uint64
}

func (sc scenario) check() error {
	if err := sc.policy.check(); err != nil {
		return err
	}
	switch {
	case sc.nodes < 1 || sc.keys < 1 || !(sc.rate > 0) || math.IsInf(sc.rate, 1):
		return errors.New("-nodes, -keys and -rate must be above 0")
	case sc.roundTrip < 0 || sc.seconds <= 0 || sc.warm < 0 || sc.warm >= sc.seconds:
		return errors.New("-round-trip must be 0 or more, -duration above 0 and above -warm-up")
	}
	return nil
}

// result counts the requests that came after the warm-up, and what became of them.
type result struct {
	Requests   int64
	Exact      int64 // that one limiter without delay would admit
	Admitted   int64
	Excess     int64 // of the admitted, those that the algorithm denies at their instants, warm-up included
	Local      int64 // decided by a lease
	Remembered int64 // decided by a remembered denial
	Decisions  int64 // of Redis
	Returns    int64 // leases of which units were given back to Redis
	Batch      float64
	Core       float64 // part of its time that Redis's core is busy
	Wait99     int64   // that 99 % of the requests which Redis decided waited at most
}

// simulation is one run.
type simulation struct {
	scenario
	clock

	random       *rand.Rand
	quotas       []quota
	exact        []quota
	admitted     [][]int64 // instants, by key
	nodes        []*node
	core         redisCore
	longestLease int64
	start, end   int64
	counted      int64   // from when on
	arrival      float64 // of the latest request, since the start: several may come within a microsecond
	waits        []int64
	result       result
}

// simulate runs a scenario in virtual time.
func simulate(sc scenario) (result, error) {
	if err := sc.check(); err != nil {
		return result{}, err
	}
	s := &simulation{
		scenario: sc, random: rand.New(rand.NewPCG(sc.seed, 0)), admitted: make([][]int64, sc.keys), core: redisCore{costs: sc.costs},
	}
	s.now = someInstant / sc.policy.window * sc.policy.window
	s.longestLease = s.longest()
	for range sc.keys {
		s.quotas, s.exact = append(s.quotas, sc.policy.newQuota()), append(s.exact, sc.policy.newQuota())
	}
	for range sc.nodes {
		s.nodes = append(s.nodes, &node{sim: s, keys: map[int]*nodeKey{}})
	}
	s.start, s.counted, s.end = s.now, s.now+int64(sc.warm*second), s.now+int64(sc.seconds*second)
	s.core.counted = s.counted
	s.arrive()
	s.runAll()
	s.sum()
	return s.result, nil
}

// someInstant is when simulations begin: at the next window's begin before it.
const someInstant = 1_700_000_000 * second

// arrive adds the next request, at random of a key and at a node, until the simulation ends.
func (s *simulation) arrive() {
	s.arrival += s.random.ExpFloat64() / (s.rate * float64(s.keys)) * second
	at := s.start + int64(s.arrival)
	if at >= s.end {
		return
	}
	s.at(at, func() {
		key := s.random.IntN(s.keys)
		s.count(s.now, &s.result.Requests)
		if s.exact[key].take(s.now, request{units: 1}).wait == 0 {
			s.count(s.now, &s.result.Exact)
		}
		s.nodes[s.random.IntN(len(s.nodes))].request(key)
		s.arrive()
	})
}

// oneWay returns how long a message travels: nine tenths of half the round trip at least, half of it in
// the mean.
func (s *simulation) oneWay() int64 {
	half := float64(s.roundTrip) / 2
	return int64(half * (0.9 + 0.1*s.random.ExpFloat64()))
}

// count counts one for what came at an instant, if that was after the warm-up.
func (s *simulation) count(came int64, number *int64) {
	if came >= s.counted {
		*number++
	}
}

// admit admits now a request that came at an instant.
func (s *simulation) admit(key int, came int64) {
	s.count(came, &s.result.Admitted)
	s.admitted[key] = append(s.admitted[key], s.now)
}

// waited observes how long Redis took to decide a request that came at an instant.
func (s *simulation) waited(came int64) {
	if came >= s.counted {
		s.waits = append(s.waits, s.now-came)
	}
}

// sum completes the result. It plays what was admitted, at its true instants, through the exact algorithm.
func (s *simulation) sum() {
	for _, instants := range s.admitted {
		slices.Sort(instants)
		exact := s.policy.newQuota()
		for _, at := range instants {
			if exact.take(at, request{units: 1}).wait > 0 {
				s.result.Excess++
			}
		}
	}
	if s.core.runs > 0 {
		s.result.Batch = float64(s.core.asked) / float64(s.core.runs)
	}
	s.result.Core = s.core.busy / (max(float64(s.end), s.core.free) - float64(s.counted))
	if len(s.waits) > 0 {
		slices.Sort(s.waits)
		s.result.Wait99 = s.waits[len(s.waits)*99/100]
	}
}
