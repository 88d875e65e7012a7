package rule

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
)

// blockAll blocks a range in all policies.
func blockAll(t testing.TB, live *overrides.Live, text string, lasts time.Duration) {
	t.Helper()
	assert.NoError(live.Put(t.Context(), overrides.Target{Range: netip.MustParsePrefix(text)}, overrides.Spec{Action: overrides.Block}, lasts))(t)
}

// blockedSet is a set of rules of other keys than addresses, of which the first may be a dry run, and the second by the address.
func blockedSet(t *testing.T, dry ...bool) *Set {
	t.Helper()
	rules := manyRules(t, 3, 2)
	rules[0].Key = assert.NoError(ParseKey("{http.request.header.X-Key}", exact))(t)
	rules[2].Key = assert.NoError(ParseKey("same", exact))(t)
	for i := range dry {
		rules[i].DryRun = dry[i]
	}
	set := NewSet(rules)
	set.Overrides = overrides.NewLocal(overrides.Hooks{})
	return set
}

// TestSet_Blocks has the first enforced rule carry the block, whatever its key is; dry runs alone refuse nothing.
func TestSet_Blocks(t *testing.T) {
	for name, test := range map[string]struct {
		dry             []bool
		policy, key     string
		enforced, dried int
	}{
		"all enforced":      {nil, "many0", "%ip:203.0.113.7", 1, 0},
		"the first is dry":  {[]bool{true}, "many1", "203.0.113.7", 1, 0},
		"the last enforced": {[]bool{true, true}, "many2", "%ip:203.0.113.7", 1, 0},
		"all dry":           {[]bool{true, true, true}, "many0", "%ip:203.0.113.7", 0, 1},
	} {
		set := blockedSet(t, test.dry...)
		blockAll(t, set.Overrides, "203.0.113.0/24", time.Hour)
		r, _ := keyRequest("203.0.113.7", nil)
		var findings []Finding
		e := Evaluation{OnFinding: func(f Finding) { findings = append(findings, f) }}
		blocked, err := set.Blocks(r, &e)
		assert.FatalIf(t, !blocked || err != nil || len(findings) != 1, "%s: %v, %v, %d findings", name, blocked, err, len(findings))
		assert.Equal(t, fmt.Sprint(len(e.Enforced), len(e.DryBlocks)), fmt.Sprint(test.enforced, test.dried), "%s: checks", name)
		assert.Equal(t, e.Blocked && e.BlockedEverywhere, test.enforced > 0, "%s: refused", name)
		check := append(e.Enforced, e.DryBlocks...)[0]
		f := findings[0]
		assert.ErrorIf(t, f.Status != Blocked || f.Override == nil || f.Rule.Policy != check.Policy || f.Key != check.Key || f.DryRun != (test.dried > 0), "%s: %+v", name, f)
		assert.Equal(t, check.Policy.Name()+" "+check.Key.String(), test.policy+" "+test.key, "%s: whose check", name)
		wait := check.Result.RetryAfter
		assert.ErrorIf(t, check.Result.Passes() || wait < time.Hour-time.Minute || wait > time.Hour, "%s: %+v", name, check.Result)
		assert.Equal(t, BlockSource(&check), limiter.SourceOverride, "%s: the source", name)
		r, _ = keyRequest("203.0.112.7", nil)
		blocked, err = set.Blocks(r, new(Evaluation))
		assert.ErrorIf(t, blocked || err != nil, "%s: another address: %v, %v", name, blocked, err)
	}
}

// TestSet_Blocks_rollout has a rule that is enforced for no key be a dry run, and one for some keys not.
func TestSet_Blocks_rollout(t *testing.T) {
	for percent, refuses := range map[float64]bool{0: false, 1: true} {
		set := blockedSet(t, true, true, false)
		set.Rules[2].Rollout = assert.NoError(ParseRollout("many2", &percent))(t)
		blockAll(t, set.Overrides, "203.0.113.7/32", 0)
		r, _ := keyRequest("203.0.113.7", nil)
		var e Evaluation
		blocked, err := set.Blocks(r, &e)
		assert.ErrorIf(t, !blocked || err != nil || e.Blocked != refuses || set.IsDryRun() == refuses, "enforce %v: %v, %v, refuses: %v", percent, blocked, err, e.Blocked)
	}
}

// TestSet_Blocks_early has the address of early data be verified first, as with the option exempt.
func TestSet_Blocks_early(t *testing.T) {
	set := blockedSet(t)
	r, _ := keyRequest("203.0.113.7", nil)
	r.TLS = new(tls.ConnectionState)
	blocked, err := set.Blocks(r, new(Evaluation))
	assert.ErrorIf(t, blocked || err != nil, "without a block: %v, %v", blocked, err)
	blockAll(t, set.Overrides, "192.0.2.0/24", 0)
	var e Evaluation
	blocked, err = set.Blocks(r, &e)
	assert.ErrorIf(t, blocked || !IsRefusal(err) || e.Concerns(), "%v, %v; want %d", blocked, err, http.StatusTooEarly)
	for i := range set.Rules {
		set.Rules[i].DryRun = true
	}
	blocked, err = set.Blocks(r, &e)
	assert.ErrorIf(t, blocked || err != nil, "dry runs: %v, %v", blocked, err)
}

// TestRule_OverrideOfKey_everywhere finds blocks for all policies by the addresses of clients in keys, before exemptions.
func TestRule_OverrideOfKey_everywhere(t *testing.T) {
	live := overrides.NewLocal(overrides.Hooks{})
	blockAll(t, live, "203.0.113.7/32", 0)
	blockAll(t, live, "2001:db8::5/128", 0)
	assert.NoError(live.Put(t.Context(), overrides.Target{Policy: "many0", Client: "203.0.113.7"}, overrides.Spec{Action: overrides.Exempt}, 0))(t)
	for template, keys := range map[string]map[string]string{
		"{http.vars.client_ip}":                           {"203.0.113.7": "all", "203.0.113.8": "", "2001:db8::/64": "some"},
		"{http.request.header.X-Key}":                     {"203.0.113.7": "own", "%ip:203.0.113.7": "all", "acme": ""},
		"{http.request.remote.host}":                      {"203.0.113.7": "own"},
		"{http.vars.client_ip}:{http.request.header.X-K}": {"203.0.113.7:a": "all", "203.0.113.8:a": ""},
	} {
		r := manyRules(t, 1, 0)[0]
		r.Key = assert.NoError(ParseKey(template, Prefixes{IPv4: 32, IPv6: 64}))(t)
		for key, want := range keys {
			entry, part := r.OverrideOfKey(live, limiter.AsEncoded(key))
			got := ""
			switch {
			case entry != nil && entry.Everywhere():
				got = "all"
			case entry != nil:
				got = "own"
			case part != nil:
				got = "some"
			}
			assert.Equal(t, got, want, "%s of %s", key, template)
		}
	}
}

// BenchmarkSet_Blocks looks a request's client up among 1,000 addresses, and where nothing is blocked for all policies. Package
// overrides looks one up among 10,000.
func BenchmarkSet_Blocks(b *testing.B) {
	live := overrides.NewLocal(overrides.Hooks{})
	set := NewSet([]Rule{{Policy: assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "p", Limit: 1, Window: time.Hour}))(b)}})
	set.Overrides = live
	run := func(name, address string) {
		r, _ := keyRequest(address, nil)
		b.Run(name+"/"+address, func(b *testing.B) {
			b.ReportAllocs()
			var e Evaluation
			for b.Loop() {
				if blocked, err := set.Blocks(r, &e); blocked || err != nil {
					b.Fatal(blocked, err)
				}
			}
		})
	}
	run("none", "192.0.2.1")
	for i := range 1_000 {
		blockAll(b, live, fmt.Sprintf("10.%d.%d.7/32", i/256, i%256), 0)
	}
	run("1,000", "192.0.2.1")
	run("1,000", "2001:db8:1:2:3:4:5:6")
}
