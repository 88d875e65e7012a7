package replay

import (
	"fmt"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

// leaveOut notes the options of the policy that no ladder tries, in sentences that are safe on a terminal. With
// such options the ladders do not show the policy as it is.
func (s *Suggester) leaveOut(p *PolicyResult) {
	sentences := []string{}
	if cost := p.Set("cost"); cost != "" {
		sentences = append(sentences, fmt.Sprintf("each limit is tried with the weights; what responses cost (%s) is left out", display.EscapeShort(cost, shownPlaceholder)))
	}
	if from := p.LimitFrom + p.MaxConcurrentFrom; from != "" {
		sentences = append(sentences, fmt.Sprintf("each limit is tried for all requests; the limits that %s sets are not", display.EscapeShort(from, shownPlaceholder)))
	}
	if len(s.own.Ban) > 0 {
		sentences = append(sentences, "each limit is tried without the policy's bans")
	}
	if p.Set("enforce") != "" {
		sentences = append(sentences, "each limit is tried for all keys; the policy is enforced for only a part of them")
	}
	if reserve := p.Set("reserve"); reserve != "" {
		sentences = append(sentences, fmt.Sprintf("reserve %s is left out: with it, more requests are denied", reserve))
	}
	var own []string
	for _, o := range p.OwnBucket() {
		own = append(own, o.String())
	}
	if len(own) > 0 {
		sentences = append(sentences, fmt.Sprintf("buckets are tried with the limit as their burst and without a queue; the policy's own %s %s not",
			strings.Join(own, " and "), []string{"is", "are"}[len(own)-1]))
	}
	s.result.NotTried = sentences
}

// ownLimit returns the policy's own limit, or 0 if no ladder shows the policy as it is.
func (s *Suggester) ownLimit() int64 {
	if s.own.MaxConcurrent > 0 || len(s.result.NotTried) > 0 {
		return 0
	}
	return s.own.Limit
}
