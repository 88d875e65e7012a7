package replay

import (
	"container/heap"
	"context"
	"math"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
)

// trial plays a sample under one algorithm, limit by limit, each in a store of its own as a plain replay of that limit
// would. A key that one limit leaves untouched is untouched by all higher limits, so that these are played for the
// other keys alone.
type trial struct {
	algorithm string
	settings  limiter.Settings // whatever the limit
	sample    *sample
	units     []int64 // of all requests, key by key: no limit from there on denies one
	denied    []int32 // requests that the last limit denied, key by key
	ends      returns // of units that come back
}

// returns are units that come back, the next ones first.
type returns []*returning

// returning is a check whose units come back at an instant.
type returning struct {
	at    int64
	check limiter.Check
}

func (r returns) Len() int           { return len(r) }
func (r returns) Less(i, j int) bool { return r[i].at < r[j].at }
func (r returns) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *returns) Push(x any) {
	*r = append(*r, x.(*returning)) //nolint:forcetypeassert,errcheck // the heap holds nothing else
}
func (r *returns) Pop() any {
	last := len(*r) - 1
	x := (*r)[last]
	(*r)[last] = nil
	*r = (*r)[:last]
	return x
}

// tried returns the settings of an algorithm that is tried, with a limit of 1. A bucket's burst is the limit.
func tried(own limiter.Settings, algorithm string) limiter.Settings {
	if algorithm == maxConcurrent {
		return limiter.Settings{Name: own.Name, MaxConcurrent: 1}
	}
	return limiter.Settings{
		Name: own.Name, Algorithm: algorithm, Limit: 1, Window: own.Window, Calendar: own.Calendar, Location: own.Location,
		Refunds: own.Refunds,
	}
}

// policy returns the policy of a limit, which is one of the ladder or between two of them.
func (t *trial) policy(limit int64) (*limiter.Policy, error) {
	s := t.settings
	if s.MaxConcurrent > 0 {
		s.MaxConcurrent = limit
	} else {
		s.Limit = limit
	}
	return limiter.NewPolicy(s)
}

// play counts in denied what a limit denies of requests of the sample, which are named by their places.
func (t *trial) play(requests []int32, limit int64) error {
	policy, err := t.policy(limit)
	if err != nil {
		return err
	}
	clear(t.denied)
	t.ends = t.ends[:0]
	now := int64(0)
	store := memory.NewOnClock(func() int64 { return now })
	store.Limit(math.MaxInt64, nil)
	checks := make([]limiter.Check, 1)
	for _, place := range requests {
		r := &t.sample.requests[place]
		if t.units[r.key] <= limit {
			continue
		}
		for len(t.ends) > 0 && t.ends[0].at <= r.at {
			ended := heap.Pop(&t.ends).(*returning) //nolint:forcetypeassert,errcheck // as above
			now = ended.at
			giveBack(store, ended.check)
		}
		now = r.at
		looks := r.weight < 0
		checks[0] = limiter.Check{Policy: policy, Key: t.sample.keys[r.key].name, Weight: r.units(), Look: looks && t.settings.Refunds}
		checks[0].Refundable = r.back > 0 && !looks && t.settings.Refunds
		if _, err := store.Decide(context.Background(), checks); err != nil {
			return err
		}
		switch {
		case !checks[0].Result.Passes():
			t.denied[r.key]++
		case r.back == 0:
		case r.back <= now:
			giveBack(store, checks[0])
		default:
			heap.Push(&t.ends, &returning{at: r.back, check: checks[0]})
		}
	}
	return nil
}

// giveBack returns what a check has taken: the units of a request that runs, or the refund of one that is not counted. A look is
// charged.
func giveBack(store *memory.Store, check limiter.Check) {
	if check.Policy.CountsRunning {
		store.EndRunning([]limiter.Check{check})
		return
	}
	cost := int64(0)
	if check.Look {
		cost = check.Weight
	}
	store.Settle(check, cost)
}

// units returns the units that a request asks for.
func (r *sampledRequest) units() int64 { return max(int64(r.weight), -int64(r.weight)) }

// touched returns what the last limit denied.
func (t *trial) touched() (d denials) {
	for key, denied := range t.denied {
		if denied > 0 {
			d.add(&t.sample.keys[key], denied)
		}
	}
	return d
}

// ladder plays all limits, from low to high, and returns what each would have denied. A limit that leaves so many keys
// untouched as [Ladder] wants is looked for between the last limit that does not and the first that does.
func (t *trial) ladder(limits []int64) (Ladder, error) {
	l, estimate := Ladder{Algorithm: t.algorithm}, t.sample.estimate()
	t.units, t.denied = make([]int64, len(t.sample.keys)), make([]int32, len(t.sample.keys))
	requests, spare := make([]int32, len(t.sample.requests)), make([]int32, 0, len(t.sample.requests))
	for i := range requests {
		r := &t.sample.requests[i]
		requests[i] = int32(i)
		t.units[r.key] += r.units()
	}
	keys := estimate.report.Clients
	wanted := []struct {
		limit   *int64
		touched int // keys at most
	}{{&l.Untouched99, keys / 100}, {&l.Untouched999, keys / 1000}, {&l.Untouched100, 0}}
	below := int64(0)
	for _, limit := range limits {
		if err := t.play(requests, limit); err != nil {
			return l, err
		}
		touched := t.touched()
		l.Limits = append(l.Limits, estimate.result(limit, &touched))
		touchedRequests := spare[:0]
		for _, place := range requests {
			if t.denied[t.sample.requests[place].key] > 0 {
				touchedRequests = append(touchedRequests, place)
			}
		}
		for keys > 0 && len(wanted) > 0 && touched.keys <= wanted[0].touched {
			smallest, err := t.smallest(requests, below, limit, wanted[0].touched)
			if err != nil {
				return l, err
			}
			*wanted[0].limit = smallest
			wanted = wanted[1:]
		}
		below, spare, requests = limit, requests, touchedRequests
	}
	if !estimate.complete() {
		l.Sample = &estimate.report
	}
	return l, nil
}

// smallest returns the smallest limit that touches so many keys at most: above one that touches more, up to one that
// does not.
func (t *trial) smallest(requests []int32, above, upTo int64, most int) (int64, error) {
	for upTo-above > 1 {
		middle := above + (upTo-above)/2
		if err := t.play(requests, middle); err != nil {
			return 0, err
		}
		if touched := t.touched(); touched.keys <= most {
			upTo = middle
		} else {
			above = middle
		}
	}
	return upTo, nil
}
