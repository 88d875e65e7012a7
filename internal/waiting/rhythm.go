package waiting

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
)

const (
	// freshNews is how long after an answer places are handed on by what the answer told.
	freshNews = 250 * time.Millisecond

	// shortestClaim is how long a claim lasts at least, and longestClaim at most.
	shortestClaim = 250 * time.Millisecond
	longestClaim  = kernel.LongestClaim * time.Microsecond

	// longestPeriod is how long a waiting node pauses between two asks at most, unless the process asks for many keys.
	longestPeriod = time.Second

	// pollsPerSecond is how many asks a process sends in a second at most, besides those for which a request has arrived
	// or ended, or that follow an answer. All keys share them.
	pollsPerSecond = 2000

	// pollBurst is how many of these asks may leave at once after a pause.
	pollBurst = 100
)

// news is what is known of a key since the last answer. The zero value knows nothing.
type news struct {
	at      clock.Moment // of the last answer that told of claims
	known   bool
	foreign bool         // another node has a claim
	claim   clock.Moment // the turn of the claim
	unknown int          // how many answers since then told nothing
}

// learn takes what an answer tells.
func (n *news) learn(c Claim, sent, now clock.Moment) {
	if !c.known {
		n.unknown++
		return
	}
	*n = news{at: now, known: true, foreign: c.foreign}
	if c.foreign {
		n.claim = sent.Add(-c.age)
	}
}

// allows reports whether a request with this turn may have a place of this node without a question.
func (n *news) allows(turn, now clock.Moment) bool {
	if !n.known || n.unknown > 0 || now.Since(n.at) >= freshNews {
		return false
	}
	return !n.foreign || turn <= n.claim.Add(slackOf(now.Since(n.claim)))
}

// slackOf returns by how much a turn may be later than a claim's of this age.
func slackOf(age time.Duration) time.Duration {
	return time.Duration(kernel.Slack(age.Microseconds())) * time.Microsecond
}

// period returns the longest time until the next ask for a head whose turn has this age. A node that has the claim, or may
// have the claim, asks often: free places wait for that node. Other nodes follow what has become of the claim. A store that
// fails is asked as rarely as if another node had the claim.
func (n *news) period(age time.Duration) time.Duration {
	if n.foreign || n.unknown > 1 {
		return max(20*time.Millisecond, min(age/8, longestPeriod))
	}
	return claimPeriod(age)
}

// claimPeriod is the period of a node whose turn of this age is the claim.
func claimPeriod(age time.Duration) time.Duration {
	return max(5*time.Millisecond, min(age/25, 40*time.Millisecond))
}

// rateOf returns how many asks in 1,000 seconds a period means, where each ask comes after half the period to the whole.
func rateOf(period time.Duration) int64 {
	return int64(1000 * time.Second / (period * 3 / 4))
}

// stretch returns by how much all periods of a process are longer, because their asks in 1,000 seconds would be more than
// [pollsPerSecond].
func stretch(rates int64) float64 { return max(1, float64(rates)/(1000*pollsPerSecond)) }

// stretched returns a period that is longer by a factor.
func stretched(period time.Duration, by float64) time.Duration {
	return time.Duration(float64(period) * by)
}

// claimLength returns how long a claim lasts whose node asks in this period: for three asks, and the way of an ask and of
// its answer.
func claimLength(period, trip time.Duration) time.Duration {
	return max(shortestClaim, min(3*period+2*trip, longestClaim))
}

// budget holds what a process sends to [pollsPerSecond].
type budget struct{ used clock.Moment } // until when what was sent has used up the budget

const pollSpan = time.Second / pollsPerSecond

// take takes one ask of the budget. Where no ask is left, it returns when one is.
func (b *budget) take(now clock.Moment) (again clock.Moment, ok bool) {
	if ready := b.used.Add(-pollSpan * (pollBurst - 1)); ready > now {
		return ready, false
	}
	b.used = max(b.used, now).Add(pollSpan)
	return 0, true
}
