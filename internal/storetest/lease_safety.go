package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/lease"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// LeasesNeverAdmitMore plays one to four nodes that lease from one key of a store, with pauses, late and lost
// messages, crashes and clocks that run at other rates, biased to the instants at which something changes.
// What was admitted is played again, at the true instants, through the algorithm without leases. It plays about as
// many decisions of each algorithm, in traces from the first seed on, on a store that open returns.
func LeasesNeverAdmitMore(t *testing.T, first uint64, decisions int64, open func(t testing.TB) *Candidate) {
	for i, algorithm := range []string{limiter.FixedWindow, limiter.SlidingWindowCounter, limiter.SlidingWindowLog, limiter.GCRA} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			store := open(t)
			var sum leaseWorld
			traces, play := uint64(0), assert.NewPlay(t, 0)
			for ; sum.decisions < decisions; traces++ {
				seed, alone := assert.SeedAlone()
				if !alone {
					seed = first*uint64(i+1) + traces
				}
				play.Begin(seed)
				w := playLeases(t, algorithm, seed, store, play)
				sum.add(w)
				if err := exactly(w.policy, w.admitted); err != nil {
					t.Fatalf("trace %d, %v: %v", traces, w.policy.Settings, err)
				}
				if alone {
					return
				}
			}
			if sum.spent == 0 || sum.late == 0 || sum.returned == 0 || sum.lost == 0 || sum.paused == 0 || sum.restored == 0 && decisions > 10_000 {
				t.Error("the traces show nothing")
			}
			t.Logf("%d traces, %d decisions; units leased %d, spent %d, given back %d; %d late answers, %d lost, %d restored, %d pauses",
				traces, sum.decisions, sum.leased, sum.spent, sum.returned, sum.late, sum.lost, sum.restored, sum.paused)
		})
	}
}

func (w *leaseWorld) add(o *leaseWorld) {
	w.decisions, w.leased, w.spent, w.returned = w.decisions+o.decisions, w.leased+o.leased, w.spent+o.spent, w.returned+o.returned
	w.late, w.lost, w.restored, w.paused = w.late+o.late, w.lost+o.lost, w.restored+o.restored, w.paused+o.paused
}

// leaseTracePolicy makes up a policy whose leases may be long enough.
func leaseTracePolicy(t *testing.T, random *rand.Rand, algorithm string) *limiter.Policy {
	t.Helper()
	s := limiter.Settings{Name: "lease", Algorithm: algorithm, Lease: limiter.MaxLease, Limit: 16 + random.Int64N(120), Window: time.Duration(1000+random.IntN(3000)) * time.Millisecond}
	if random.IntN(3) == 0 {
		s.Limit = 16 + random.Int64N(4000)
	}
	if kernel.Named(algorithm).Bursts && random.IntN(2) == 0 {
		s.Limit = 10_000 + random.Int64N(100_000) // much drains while a lease lasts
	}
	if kernel.Named(algorithm).Bursts && random.IntN(2) == 0 {
		s.Burst = s.Limit/2 + random.Int64N(2*s.Limit)
	}
	p, err := limiter.NewPolicy(s)
	if err != nil {
		t.Fatal(err)
	}
	if random.IntN(4) == 0 && p.Params.Tick == 1 {
		p = inMilliseconds(p)
	}
	p.Lease = max(p.Lease, limiter.MinLease)
	return p
}

// inMilliseconds returns a policy that counts in milliseconds, as one of large numbers does.
func inMilliseconds(p *limiter.Policy) *limiter.Policy {
	t := p.Params
	t.Tick, t.Window = 1000, t.Window/1000
	t.Full, t.MaxDebt = kernel.CeilDiv(t.Capacity*t.Window, t.Limit), kernel.MostDebt(t.Limit, 1000)
	other := p.With(t)
	other.ID, other.Lease, other.Salt = p.ID+"-ms", p.Lease, p.Salt
	return other
}

// playLeases plays one random trace.
func playLeases(t *testing.T, algorithm string, seed uint64, store *Candidate, play *assert.Play) *leaseWorld {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 11))
	w := &leaseWorld{
		t: t, play: play, store: store, random: random, policy: leaseTracePolicy(t, random, algorithm),
		key: limiter.EncodeKey(fmt.Sprint("k", seed)), now: Epoch,
	}
	w.now += random.Int64N(3 * w.policy.Params.Window * w.policy.Params.Tick)
	for range 1 + random.IntN(4) {
		rate := 0.8751 + random.Float64()*0.4 // a clock that is slower by an eighth: Redis's gains a seventh on it
		if random.IntN(3) == 0 {
			rate = 0.8751
		}
		w.nodes = append(w.nodes, w.newNode(rate))
	}
	left := 250
	var next func()
	next = func() {
		if left--; left > 0 {
			w.act(w.nodes[random.IntN(len(w.nodes))])
			w.later(w.pause(), next)
		}
	}
	w.later(0, next)
	w.run()
	return w
}

// leaseActs are the names of what happens at a node.
var leaseActs = [12]string{
	"another client takes", "another client takes", "spends all", "spends all", "spends all", "may crash or reload",
	"requests", "requests", "requests", "requests", "requests", "requests",
}

// act has something happen at a node.
func (w *leaseWorld) act(n *leaseNode) {
	random := w.random
	if random.IntN(3) > 0 {
		n.makeBusy()
	}
	kind := random.IntN(12)
	w.play.Step("epoch%+d node %d of %d, whose clock runs at %.3f: %s",
		w.now-Epoch, slices.Index(w.nodes, n), len(w.nodes), n.rate, leaseActs[kind])
	switch kind {
	case 0, 1: // a client right beside the store takes what there is, or a part of it
		c := limiter.Check{Policy: w.policy, Key: w.key, Peek: true}
		look, _ := w.lease(&c, kernel.Wish{}, 0, kernel.Receipt{})
		units := look.Remaining
		if units > 1 && random.IntN(3) == 0 {
			units = 1 + random.Int64N(units)
		}
		if units > 0 {
			w.decisions++
			c := limiter.Check{Policy: w.policy, Key: w.key, Weight: units}
			if result, _ := w.lease(&c, kernel.Wish{}, 0, kernel.Receipt{}); result.Passes() {
				w.admit(w.now, units)
			}
		}
	case 2, 3, 4: // the node spends all that it has
		units, _ := n.table.Held("lease", w.key.String())
		for units > 0 {
			weight := 1 + random.Int64N(units)
			w.decisions++
			n.spend(n.table, w.now, weight)
			units -= weight
		}
	case 5: // it crashes, or the configuration is reloaded
		switch random.IntN(6) {
		case 0:
			n.restart()
		case 1:
			n.table.EndAll(func(*limiter.Policy) bool { return true }, lease.KeyEnded)
		}
	default:
		weight := int64(1)
		switch random.IntN(8) {
		case 0:
			weight = 1 + random.Int64N(5)
		case 1:
			if random.IntN(4) == 0 {
				weight = 1 + random.Int64N(w.policy.Params.Capacity)
			}
		}
		for range 1 + random.IntN(6) {
			n.request(weight)
		}
	}
}

// pause returns how long until something else happens: nothing, a little, until an instant at which
// something changes, or until everything has drained.
func (w *leaseWorld) pause() int64 {
	random, window := w.random, w.policy.Params.Window*w.policy.Params.Tick
	longest := w.policy.Params.LongestLease() * w.policy.Params.Tick
	switch x := random.IntN(40); {
	case x < 10:
		return 0
	case x < 20:
		return random.Int64N(longest/3 + 1)
	case x < 26: // right before the end of a lease
		next := longest
		for _, at := range w.special[max(0, len(w.special)-12):] {
			if at > w.now+1 {
				next = min(next, at-w.now-1)
			}
		}
		return next
	case x < 36:
		for range 6 {
			at := (w.now/window+1)*window + random.Int64N(3) - 1
			switch lately := min(20, len(w.admitted)); {
			case random.IntN(2) == 0 && len(w.special) > 0:
				at = w.special[max(0, len(w.special)-1-random.IntN(12))] + random.Int64N(3) - 1
				if random.IntN(3) == 0 {
					at += window
				}
			case random.IntN(3) > 0 && lately > 0:
				at = w.admitted[len(w.admitted)-1-random.IntN(lately)].at + window + random.Int64N(3) - 1
			}
			if at > w.now {
				return at - w.now
			}
		}
		return 1
	case x < 39:
		return random.Int64N(window / 2)
	}
	return 2 * max(window, w.policy.Params.Full*w.policy.Params.Tick)
}
