package storepool

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// same is a key that has one form.
func same(key string) string { return key }

func bytesOf(key string) []byte { return []byte(key) }

// told returns what a node knows after it has told others.
func told(t testing.TB, list []PolicyUsage) []PolicyUsage {
	t.Helper()
	text := encodeUsage(list, bytesOf)
	assert.ErrorIf(t, len(text) > 200_000, "an answer has %d bytes", len(text))
	return assert.NoError(DecodeUsage(string(text), same))(t)
}

// names returns names with an empty sketch each for policies.
func names(t testing.TB, now func() time.Time, policies ...string) *nameTable {
	t.Helper()
	n := newNameTable(func() map[string]bool { return nil }, now)
	t.Cleanup(n.end)
	for _, policy := range policies {
		n.Use(policy)
	}
	return n
}

// TestSumUsage has nodes that meet the same clients, each in another order, and compares their sums with exact ones.
func TestSumUsage(t *testing.T) {
	for _, kind := range []string{"zipf", "weights", "adversarial"} {
		within, keys := 0, 0
		for seed, play := range assert.Plays(t, 4, 50) {
			now := time.Unix(1_790_000_000, 0)
			exact, nodes := map[string]int64{}, [][]PolicyUsage{}
			for number := range uint64(3) {
				n := names(t, func() time.Time { return now }, "api", "unused")
				usage, next := n.known["api"].Used, streams(rand.New(rand.NewPCG(seed, number)))[kind]
				for i := range 40_000 / (1 + int(number)) {
					r := next(i)
					play.Step("%s: node %d meets %s, which uses %d", kind, number, r.key, r.units)
					usage.Add(r.key, r.units, rand.Uint64())
					exact[r.key.String()] += r.units
				}
				list := n.Usage("api")
				assert.FatalIf(t, len(list) != 1 || len(n.Usage("unused")) != 0 || len(n.Usage(AllPolicies)) != 1, "%+v", list)
				if number > 0 {
					list = told(t, list)
				}
				nodes = append(nodes, list)
			}
			sum, _ := SumUsage(nodes, 100)
			for i, k := range sum {
				play.Step("%s: place %d has %+v", kind, i, k)
				keys++
				if used := exact[k.Key]; used >= k.Units-k.Error && used <= k.Units+k.Error {
					within++
				}
				assert.ErrorIf(t, i > 0 && k.Units > sum[i-1].Units || k.Policy != "api", "%+v is behind %+v", k, sum[max(0, i-1)])
			}
		}
		assert.ErrorIf(t, assert.AllSeeds() && (keys < 100 || within < keys*95/100), "%s: %d of %d keys are within their errors", kind, within, keys)
	}
}

// TestSumUsage_few is exact for few requests, by nodes that know different policies.
func TestSumUsage_few(t *testing.T) {
	a, b := names(t, time.Now, "api", "login"), names(t, time.Now, "api")
	for i := range int64(5) {
		a.known["api"].Used.Add(limiter.EncodeKey("x"), 10*i, rand.Uint64())
		b.known["api"].Used.Add(limiter.EncodeKey("x"), 1, rand.Uint64())
		b.known["api"].Used.Add(limiter.EncodeKey("\xff{"), 1, rand.Uint64())
		a.known["login"].Used.Add(limiter.EncodeKey("x"), 1, rand.Uint64())
	}
	sum, since := SumUsage([][]PolicyUsage{told(t, a.Usage(AllPolicies)), told(t, b.Usage(AllPolicies)), nil}, 10)
	want := []Used{{"api", "x", 105, 0}, {"api", "\xff%7B", 5, 0}, {"login", "x", 5, 0}}
	assert.Equal(t, sum, want, "the sum of two nodes")
	assert.ErrorIf(t, since < 0 || since > time.Minute, "since %v", since)
	sum, _ = SumUsage([][]PolicyUsage{a.Usage("api"), b.Usage("api")}, 1)
	assert.Equal(t, sum, want[:1], "the largest of one policy")
}

// TestSumUsage_many lists the largest of more keys than are sorted at once, of one node and of two.
func TestSumUsage_many(t *testing.T) {
	var policies []string
	for i := range 50 {
		policies = append(policies, fmt.Sprint("policy-", i))
	}
	n := names(t, time.Now, policies...)
	for i, policy := range policies {
		for client := range int64(120) {
			n.known[policy].Used.Add(limiter.EncodeKey(fmt.Sprint("client-", client)), 1+(int64(i)*7919+client*104729)%10_007, rand.Uint64())
		}
	}
	list := n.Usage(AllPolicies)
	for _, most := range []int{1, 7, 500, 10_000} {
		one, _ := SumUsage([][]PolicyUsage{list}, most)
		two, _ := SumUsage([][]PolicyUsage{list, list}, most)
		assert.FatalIf(t, len(one) != min(most, 50*120) || len(two) != len(one), "%d keys, of two nodes %d", len(one), len(two))
		for i := range one {
			double := Used{one[i].Policy, one[i].Key, 2 * one[i].Units, 0}
			assert.FatalIf(t, double != two[i] || i > 0 && one[i].Units > one[i-1].Units, "place %d of %d has %+v, and %+v of two nodes", i, most, one[i], two[i])
		}
	}
}

// TestEncodeUsage_many tells the largest keys of many policies, and bounds the others.
func TestEncodeUsage_many(t *testing.T) {
	var policies []string
	for i := range 200 {
		policies = append(policies, fmt.Sprint("policy-", i))
	}
	n := names(t, time.Now, policies...)
	for i, policy := range policies {
		for client := range int64(100) {
			n.known[policy].Used.Add(limiter.EncodeKey(fmt.Sprint(strings.Repeat("k", 110), client)), int64(i)*100+client+1, rand.Uint64())
		}
	}
	list := told(t, n.Usage(AllPolicies))
	total, of := 0, map[string]PolicyUsage{}
	for _, p := range list {
		total += len(p.Keys)
		of[p.Policy] = p
	}
	assert.Equal(t, total, mostAnswered, "keys")
	assert.Equal(t, len(of), len(policies), "policies")
	assert.Equal(t, of["policy-0"].Missing, keyCount{Count: 100, Error: 100}, "what others of a policy have at most that has no key here")
	assert.Equal(t, len(of["policy-199"].Keys), 100, "keys of the largest policy")
	assert.Equal(t, of["policy-199"].Missing, keyCount{}, "what others of the largest policy have at most")
}

// TestDecodeUsage_foreign refuses what no node has written.
func TestDecodeUsage_foreign(t *testing.T) {
	const policy = `{"since":1,"policies":[{"name":"api","step":1,"keys":[%s]}]}`
	for _, text := range []string{
		"", "{", "[]", `"x"`, `{"since":-1}`, `{"since":1e9}`, `{"policies":[{"name":"a:b","step":1}]}`, `{"policies":[{"name":"","step":1}]}`,
		`{"policies":[{"name":"api","step":0}]}`, `{"policies":[{"name":"api","step":1,"missing":-1}]}`, `{"policies":[{"name":"api","step":1e17}]}`,
		`{"policies":[{"name":"api","step":1},{"name":"api","step":1}]}`, `{"policies":[{"name":"api","step":1,"variance":-1}]}`,
		`{"policies":[{"name":"` + strings.Repeat("x", 65) + `","step":1}]}`,
		fmt.Sprintf(policy, `{"k":"eA==","c":-1}`), fmt.Sprintf(policy, `{"k":"eA==","c":1,"e":2}`), fmt.Sprintf(policy, `{"k":"eA==","c":9223372036854775807}`),
		fmt.Sprintf(policy, `{"k":"eA==","c":1,"v":1e308}`), fmt.Sprintf(policy, `{"k":"eA==","c":1},{"k":"eA==","c":1}`), fmt.Sprintf(policy, `{"k":"no base64","c":1}`),
		fmt.Sprintf(policy, `{"k":"`+strings.Repeat("eHh4", 200)+`","c":1}`),
	} {
		_, err := DecodeUsage(text, same)
		assert.ErrorIf(t, err == nil, "%.80s is read", text)
	}
	list := assert.NoError(DecodeUsage(fmt.Sprintf(policy, `{"k":"/w==","c":7,"e":3,"v":2.5}`), same))(t)
	assert.FatalIf(t, len(list) != 1 || len(list[0].Keys) != 1, "%+v", list)
	assert.Equal(t, list[0].Keys[0], keyCount{"\xff", 7, 3, 2.5}, "a key that is no text")
}

// FuzzDecodeUsage adds up any two answers that are read.
func FuzzDecodeUsage(f *testing.F) {
	f.Add(`{"since":1,"policies":[{"name":"api","step":64,"missing":5,"variance":3,"keys":[{"k":"/w==","c":7,"e":3,"v":2.5}]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		list, err := DecodeUsage(text, same)
		if err != nil {
			return
		}
		sum, since := SumUsage([][]PolicyUsage{list, list, list}, 1000)
		assert.ErrorIf(t, since < 0, "since %v", since)
		for _, k := range sum {
			assert.ErrorIf(t, k.Units < 0 || k.Error < 0 || k.Units > mostCount || k.Error > mostCount, "%+v", k)
		}
		_ = assert.NoError(DecodeUsage(string(encodeUsage(list, bytesOf)), same))(t)
	})
}
