package storepool

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// PolicyUsage is what the keys of a policy have used on one node.
type PolicyUsage struct {
	Policy string
	usedKeys
}

// AllPolicies is the subject of a question about all policies. No policy has that name.
const AllPolicies = "*"

// mostAnswered is how many keys of all policies together a node answers with: 40 kB, if keys have 16 bytes.
const mostAnswered = 500

// Usage returns what keys have used on this node, of the policy of a name or of [AllPolicies].
func (n *nameTable) Usage(policy string) (list []PolicyUsage) {
	policies := map[string]*usage{}
	n.mu.Lock()
	for name, p := range n.known {
		if policy == AllPolicies || policy == name {
			policies[name] = p.Used
		}
	}
	n.mu.Unlock()
	for name, usage := range policies {
		if used := usage.list(); len(used.Keys) > 0 {
			list = append(list, PolicyUsage{name, used})
		}
	}
	return list
}

// The form of a node's answer. Keys are in the form of the names of Redis keys, so that those that are hashed there are
// hashed here too. They may be any bytes, which JSON has as base64.
type (
	sentUsage struct {
		Since    float64      `json:"since"` // seconds
		Policies []sentPolicy `json:"policies"`
	}
	sentPolicy struct {
		Name     string    `json:"name"`
		Step     int64     `json:"step"`
		Missing  int64     `json:"missing,omitempty"`
		Variance float64   `json:"variance,omitempty"` // of Missing
		Keys     []sentKey `json:"keys"`
	}
	sentKey struct {
		Key      []byte  `json:"k"`
		Count    int64   `json:"c"`
		Error    int64   `json:"e,omitempty"`
		Variance float64 `json:"v,omitempty"`
	}
)

// encodeUsage writes what keys have used as an answer for other nodes. The function returns the form that a key has in
// Redis. Of more than [mostAnswered] keys the largest are there, and [usedKeys].Missing bounds the others.
func encodeUsage(list []PolicyUsage, inRedis func(key string) []byte) []byte {
	answer := sentUsage{Policies: []sentPolicy{}}
	kept := largest(list, mostAnswered)
	for i, p := range list {
		answer.Since = max(answer.Since, p.Since.Seconds())
		missing := p.Missing
		if kept[i] < len(p.Keys) {
			if k := p.Keys[kept[i]]; k.Count > missing.Count {
				missing.Count, missing.Variance = k.Count, max(missing.Variance, k.Variance)
			}
		}
		sent := sentPolicy{Name: p.Policy, Step: p.Step, Missing: missing.Count, Variance: missing.Variance, Keys: []sentKey{}}
		for _, k := range p.Keys[:kept[i]] {
			sent.Keys = append(sent.Keys, sentKey{inRedis(k.Key), k.Count, k.Error, k.Variance})
		}
		answer.Policies = append(answer.Policies, sent)
	}
	text, err := json.Marshal(answer)
	if err != nil { // of numbers and texts there is none
		return nil
	}
	return text
}

// largest returns how many of the keys of each policy are among the largest of all.
func largest(list []PolicyUsage, most int) (kept []int) {
	type place struct {
		policy int
		count  int64
	}
	var all []place
	for i, p := range list {
		for _, k := range p.Keys {
			all = append(all, place{i, k.Count})
		}
	}
	slices.SortStableFunc(all, func(a, b place) int { return cmp.Compare(b.count, a.count) })
	kept = make([]int, len(list))
	for _, p := range all[:min(most, len(all))] {
		kept[p.policy]++
	}
	return kept
}

// errForeign is the error of an answer that no node of this version has written. It quotes nothing, since keys may be in it.
var errForeign = errors.New("a node has answered in another form")

// DecodeUsage reads the answer of another node. The function returns the key that stands for a form in Redis.
func DecodeUsage(text string, keyOf func(inRedis string) string) (list []PolicyUsage, err error) {
	var answer sentUsage
	if json.Unmarshal([]byte(text), &answer) != nil || !(answer.Since >= 0 && answer.Since <= (2*sketchPeriod).Seconds()) {
		return nil, errForeign
	}
	policies := map[string]bool{}
	for _, sent := range answer.Policies {
		p := PolicyUsage{Policy: sent.Name}
		p.Missing = keyCount{Count: sent.Missing, Error: sent.Missing, Variance: sent.Variance}
		p.Step, p.Since = sent.Step, time.Duration(answer.Since*float64(time.Second))
		if !p.Missing.valid() || p.Step < 1 || p.Step > mostStep || policies[sent.Name] || !limiter.ValidName(sent.Name) {
			return nil, errForeign
		}
		policies[sent.Name] = true
		keys := map[string]bool{}
		for _, k := range sent.Keys {
			used := keyCount{Key: keyOf(string(k.Key)), Count: k.Count, Error: k.Error, Variance: k.Variance}
			if !used.valid() || keys[used.Key] || len(k.Key) > 2*limiter.MaxKeyLength {
				return nil, errForeign
			}
			keys[used.Key] = true
			p.Keys = append(p.Keys, used)
		}
		list = append(list, p)
	}
	return list, nil
}

// valid reports whether the numbers can be those of a key.
func (k keyCount) valid() bool {
	return k.Count >= 0 && k.Count <= mostCount && k.Error >= 0 && k.Error <= k.Count && k.Variance >= 0 && k.Variance <= math.MaxFloat64/(1<<20)
}
