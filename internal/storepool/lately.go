package storepool

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Lately is what a policy has met in the points of its history, the last ten minutes, and what runs and waits now.
type Lately struct{ Requests, Denied, WouldBeDenied, Bans, Running, Waiting int64 }

// LatelyOfAll is the subject of a question about what the policies of a node have met lately. No policy has that name. Versions of
// this module without that subject answer about usage, which [DecodeLately] refuses.
const LatelyOfAll = "*lately"

// mostLately is how many policies a node answers with, those with the most requests: 450 kB, if all names and numbers are the
// longest.
const mostLately = 3000

// Lately returns what each policy has met lately on this node. A policy that has met nothing is missing.
func (n *nameTable) Lately() map[string]Lately {
	_, points := n.Points(0)
	gauges, found := n.Gauges(), map[string]Lately{}
	for name, list := range points {
		sum := Lately{Running: gauges.Running[name], Waiting: gauges.Waiting[name]}
		for i := range list {
			sum.Requests += int64(list[i].Requests)
			sum.Denied += int64(list[i].Denied)
			sum.WouldBeDenied += int64(list[i].WouldBeDenied)
			sum.Bans += int64(list[i].Bans)
		}
		found[name] = sum
	}
	return found
}

// sentLately is the form of a node's answer: the numbers of [Lately] in their order, by policy.
type sentLately struct {
	Lately map[string][6]int64 `json:"lately"`
}

// encodeLately writes what policies have met lately as an answer for other nodes.
func encodeLately(of map[string]Lately) []byte {
	names := slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		return cmp.Or(cmp.Compare(of[b].Requests, of[a].Requests), cmp.Compare(a, b))
	})
	sent := sentLately{map[string][6]int64{}}
	for _, name := range names[:min(len(names), mostLately)] {
		l := of[name]
		sent.Lately[name] = [6]int64{l.Requests, l.Denied, l.WouldBeDenied, l.Bans, l.Running, l.Waiting}
	}
	text, err := json.Marshal(sent)
	if err != nil { // of numbers and texts there is none
		return nil
	}
	return text
}

// DecodeLately reads the answer of another node. Each number is between 0 and [mostCount].
func DecodeLately(text string) (of map[string]Lately, err error) {
	var sent sentLately
	if json.Unmarshal([]byte(text), &sent) != nil || sent.Lately == nil {
		return nil, errForeign
	}
	of = map[string]Lately{}
	for name, n := range sent.Lately {
		if !limiter.ValidName(name) || slices.Min(n[:]) < 0 || slices.Max(n[:]) > mostCount {
			return nil, errForeign
		}
		of[name] = Lately{n[0], n[1], n[2], n[3], n[4], n[5]}
	}
	return of, nil
}

// SumLately adds up what nodes have met. No sum is above 2^63: there are at most 1,001 nodes.
func SumLately(nodes []map[string]Lately) map[string]Lately {
	sums := map[string]Lately{}
	for _, node := range nodes {
		for name, l := range node {
			s := sums[name]
			sums[name] = Lately{
				s.Requests + l.Requests, s.Denied + l.Denied, s.WouldBeDenied + l.WouldBeDenied,
				s.Bans + l.Bans, s.Running + l.Running, s.Waiting + l.Waiting,
			}
		}
	}
	return sums
}
