package storepool

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Used is units that a key has used of a policy: with a probability of 95 % or a little more, Units ± Error.
type Used struct {
	Policy, Key  string
	Units, Error int64
}

// SumUsage adds up what nodes know, and returns the keys that have used most, at most so many, and how far back any node has
// counted.
//
// The bounds add up as the sums do. What a node does not list of a key is at most the node's [UsedKeys].Missing, and counts
// so. The samples of nodes are independent, so that their variances add up; the step is the largest of theirs.
func SumUsage(nodes [][]PolicyUsage, most int) (keys []Used, since time.Duration) {
	policies := map[string]*policySum{}
	for _, node := range nodes {
		for i := range node {
			p := &node[i]
			s := policies[p.Policy]
			if s == nil {
				s = &policySum{keys: map[string]KeyCount{}}
				policies[p.Policy] = s
			}
			s.add(p)
			since = max(since, p.Since)
		}
	}
	for name, s := range policies {
		for key, k := range s.keys {
			units, sketched := k.Count+s.missing.Count, k.Error+s.missing.Error
			e := min(sketched, mostCount) + SamplingError(max(0, k.Variance+s.missing.Variance), s.step)
			keys = append(keys, Used{name, key, min(units, mostCount), min(e, mostCount)})
		}
	}
	slices.SortFunc(keys, func(a, b Used) int {
		return cmp.Or(cmp.Compare(b.Units, a.Units), cmp.Compare(a.Error, b.Error), strings.Compare(a.Policy, b.Policy), strings.Compare(a.Key, b.Key))
	})
	return keys[:min(most, len(keys))], since
}

// policySum is what nodes know of a policy. No sum is above 2^63: there are at most 1,001 nodes.
type policySum struct {
	keys    map[string]KeyCount // what is listed, less what the same nodes' Missing is
	missing KeyCount            // the sum of all nodes
	step    int64
}

// add adds what one node knows.
func (s *policySum) add(p *PolicyUsage) {
	s.step = max(s.step, p.Step)
	s.missing.Count += p.Missing.Count
	s.missing.Error += p.Missing.Error
	s.missing.Variance += p.Missing.Variance
	for _, k := range p.Keys {
		sum := s.keys[k.Key]
		sum.Count += k.Count - p.Missing.Count
		sum.Error += k.Error - p.Missing.Error
		sum.Variance += k.Variance - p.Missing.Variance
		s.keys[k.Key] = sum
	}
}
