package replay

import (
	"fmt"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/replay/accesslog"
)

// notTried tells what of a policy no ladder has, in sentences that are fit for a terminal. Where there is
// something, the ladders do not show the policy as it is.
func notTried(p *PolicyResult) []string {
	sentences := []string{}
	if p.Charge != "" {
		sentences = append(sentences, fmt.Sprintf("what is charged after responses (%s) is left out: real limits have to be higher", accesslog.Printable(p.Charge, shownPlaceholder)))
	}
	if p.LimitFrom != "" {
		sentences = append(sentences, fmt.Sprintf("each limit is tried for all requests; the limits that %s sets are not", accesslog.Printable(p.LimitFrom, shownPlaceholder)))
	}
	var own []string
	if p.BurstFrom != "" || (p.Burst > 0 && p.Burst != p.Limit) {
		own = append(own, "burst "+p.BurstText())
	}
	if p.MaxDelay > 0 {
		own = append(own, "max_delay "+length(p.MaxDelay))
	}
	if len(own) > 0 {
		sentences = append(sentences, fmt.Sprintf("buckets are tried with the limit as their burst and without a queue; the policy's own %s %s not",
			strings.Join(own, " and "), []string{"is", "are"}[len(own)-1]))
	}
	return sentences
}

// leaveOut tells the suggester what of the policy it does not try.
func (s *Suggester) leaveOut(sentences []string) { s.result.NotTried = sentences }

// ownLimit is the policy's own, or 0 where no ladder shows the policy as it is.
func (s *Suggester) ownLimit() int64 {
	if len(s.result.NotTried) > 0 || s.result.Window != s.own.Window || s.otherKeys {
		return 0
	}
	return s.own.Limit
}
