package main

// node is a web server: it batches what it asks Redis, remembers denials, and leases units of busy keys.
type node struct {
	sim      *simulation
	keys     map[int]*nodeKey
	queue    []operation
	inFlight int
	lastSent int64
	waking   bool
}

// nodeKey is what a node keeps of a key.
type nodeKey struct {
	last        int64   // when the last request came
	gap         float64 // between two requests, smoothed
	gaps        float64 // so many of them
	leases      []*lease
	asking      bool // for a lease
	refused     bool // the last lease asked for was empty
	deniedUntil int64
}

// lease is units that the node may spend until an instant.
type lease struct {
	left, until, receipt int64
}

// How a node measures a key and how much it leases.
const (
	smoothedGaps  = 16
	hotGaps       = 8 // gaps from which on a key may be hot
	hotPerLease   = 4 // gaps of a hot key in the longest lease
	gapsPerLease  = 200
	tripsPerLease = 16
	denialCap     = second
	maxBatch      = 128
	maxSenders    = 16
	senderSpan    = 1000 // of round trip for one sender more
	minPaced      = 4    // senders from which on batches leave evenly spaced
)

// longest returns for how long a node leases at most, 0 where it does not lease.
func (s *simulation) longest() int64 {
	d := s.policy.longestLease()
	switch s.policy.algorithm {
	case slidingLog:
		d /= 2
	case tokenBucket:
		d = min(d, s.policy.burst*s.policy.window/(100*s.policy.limit))
	}
	const shortest, trips = 5000, 4
	if !s.leases || d < shortest || d < trips*s.roundTrip {
		return 0
	}
	return d
}

// request decides a request of a key: by a lease, by a remembered denial, or by Redis.
func (n *node) request(key int) {
	k := n.keys[key]
	if k == nil {
		k = &nodeKey{last: n.sim.now - 2*n.sim.longestLease - 1}
		n.keys[key] = k
	}
	now, s := n.sim.now, n.sim
	want, duration := k.observe(now, s.longestLease, s.roundTrip)
	n.prune(key, k)
	if k.spend() {
		s.admit(key, now)
		s.count(now, &s.result.Local)
		if want >= 2 && !k.asking && !k.refused && k.left() < want/4 {
			n.ask(key, k, request{units: 0, want: want, duration: duration})
		}
		return
	}
	if now < k.deniedUntil {
		s.count(now, &s.result.Remembered)
		return
	}
	if k.asking || want < 2 {
		want, duration = 0, 0
	}
	n.ask(key, k, request{units: 1, want: want, duration: duration})
}

// observe measures the key's rate on this node. It returns what a lease asks for, or 0 where it is not hot.
func (k *nodeKey) observe(now, longest, roundTrip int64) (want, duration int64) {
	gap := now - k.last
	if gap > longest {
		k.gap, k.gaps = 0, 0
	} else {
		k.gaps = min(k.gaps+1, smoothedGaps)
		k.gap += (float64(gap) - k.gap) / k.gaps
	}
	k.last = now
	smooth := max(k.gap, 0.001) // requests of one microsecond
	if k.gaps < hotGaps || smooth*hotPerLease > float64(longest) {
		return 0, 0
	}
	duration = int64(min(float64(longest), max(gapsPerLease*smooth, float64(tripsPerLease*roundTrip))))
	return int64(float64(duration) / (2 * smooth)), duration
}

// spend takes a unit of a lease.
func (k *nodeKey) spend() bool {
	for _, l := range k.leases {
		if l.left > 0 {
			l.left--
			return true
		}
	}
	return false
}

func (k *nodeKey) left() (sum int64) {
	for _, l := range k.leases {
		sum += l.left
	}
	return sum
}

// prune closes the leases that have ended, and gives back what is left of them.
func (n *node) prune(key int, k *nodeKey) {
	for len(k.leases) > 0 && (k.leases[0].left == 0 || n.sim.now >= k.leases[0].until) {
		n.giveBack(key, k.leases[0])
		k.leases = k.leases[1:]
	}
}

func (n *node) giveBack(key int, l *lease) {
	units, receipt := l.left, l.receipt
	if l.left = 0; units == 0 {
		return
	}
	n.send(operation{run: func(now int64) {
		n.sim.count(n.sim.now, &n.sim.result.Returns)
		n.sim.quotas[key].giveBack(now, units, receipt)
	}})
}

// ask sends a question to Redis. Its answer admits the request, begins a lease, or is a denial that the
// node remembers.
func (n *node) ask(key int, k *nodeKey, r request) {
	s, sent := n.sim, n.sim.now
	k.asking = k.asking || r.want > 0
	var a answer
	n.send(operation{
		leases: r.want > 0,
		run: func(now int64) {
			s.count(sent, &s.result.Decisions)
			a = s.quotas[key].take(now, r)
			if r.units > 0 && a.wait == 0 {
				s.admit(key, sent)
			}
		},
		done: func() {
			if r.want > 0 {
				k.asking, k.refused = false, a.leased == 0
			}
			if r.units > 0 {
				s.waited(sent)
			}
			if a.wait > 0 {
				k.deniedUntil = sent + min(a.wait, denialCap)
				return
			}
			if a.leased > 0 {
				l := &lease{a.leased, sent + a.duration - ceilDiv(a.duration, 8), a.receipt}
				k.leases = append(k.leases, l)
				s.at(l.until, func() { n.prune(key, k) })
			}
		},
	})
}
