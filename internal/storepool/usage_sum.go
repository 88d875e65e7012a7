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
// The bounds add up as the sums do. What a node does not list of a key is at most the node's [usedKeys].Missing, and counts
// so. The samples of nodes are independent, so that their variances add up; the step is the largest of theirs.
func SumUsage(nodes [][]PolicyUsage, most int) (keys []Used, since time.Duration) {
	policies := map[string]*policySum{}
	for _, node := range nodes {
		for i := range node {
			p := &node[i]
			s := policies[p.Policy]
			if s == nil {
				s = &policySum{}
				policies[p.Policy] = s
			}
			s.nodes = append(s.nodes, p)
			since = max(since, p.Since)
		}
	}
	best := ranking{most: most}
	for name, s := range policies {
		s.each(most, func(k keyCount, step int64) {
			e := min(k.Error, mostCount) + samplingError(max(0, k.Variance), step)
			best.add(Used{name, k.Key, min(k.Count, mostCount), min(e, mostCount)})
		})
	}
	return best.list(), since
}

// policySum is what nodes know of a policy. No sum is above 2^63: there are at most 1,001 nodes.
type policySum struct{ nodes []*PolicyUsage }

// each calls a function for each sum of a key, with the largest step, but at most for so many of a single node, the largest.
func (s *policySum) each(most int, call func(k keyCount, step int64)) {
	if len(s.nodes) == 1 {
		only := s.nodes[0]
		for _, k := range only.Keys[:min(most, len(only.Keys))] {
			call(k, only.Step)
		}
		return
	}
	keys, missing, step := map[string]keyCount{}, keyCount{}, int64(1)
	for _, p := range s.nodes {
		step = max(step, p.Step)
		missing.Count += p.Missing.Count
		missing.Error += p.Missing.Error
		missing.Variance += p.Missing.Variance
		for _, k := range p.Keys {
			sum := keys[k.Key] // of what is listed, less what the same nodes have for keys that are not
			sum.Count += k.Count - p.Missing.Count
			sum.Error += k.Error - p.Missing.Error
			sum.Variance += k.Variance - p.Missing.Variance
			keys[k.Key] = sum
		}
	}
	for key, k := range keys {
		call(keyCount{key, k.Count + missing.Count, k.Error + missing.Error, k.Variance + missing.Variance}, step)
	}
}

// ranking keeps those that have used most.
type ranking struct {
	most  int
	keys  []Used
	least int64 // that the last one of those has, once there are so many
}

// add adds a key.
func (r *ranking) add(k Used) {
	if k.Units < r.least {
		return
	}
	if r.keys = append(r.keys, k); len(r.keys) >= 4*r.most+64 {
		r.keys = r.list()
		r.least = r.keys[len(r.keys)-1].Units
	}
}

// list returns the keys, the first one has used most.
func (r *ranking) list() []Used {
	slices.SortFunc(r.keys, func(a, b Used) int {
		return cmp.Or(cmp.Compare(b.Units, a.Units), cmp.Compare(a.Error, b.Error), strings.Compare(a.Policy, b.Policy), strings.Compare(a.Key, b.Key))
	})
	return r.keys[:min(r.most, len(r.keys))]
}
