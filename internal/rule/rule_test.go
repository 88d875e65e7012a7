package rule

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// manyRules are rules of so many policies, of which one stands twice.
func manyRules(t *testing.T, n, again int) []Rule {
	t.Helper()
	var rules []Rule
	for i := range n {
		policy := assert.NoError(limiter.NewPolicy(limiter.Settings{Name: fmt.Sprint("many", i), Limit: 1000, Window: time.Hour, Algorithm: "gcra"}))(t)
		key := assert.NoError(ParseKey("{http.vars.client_ip}", exact))(t)
		rules = append(rules, Rule{Policy: policy, Key: key, Numbers: numbers{Weight: 1}})
	}
	rules[n-1].Policy = rules[again].Policy
	return rules
}

// TestSet_Only leaves rules out of a set of its own.
func TestSet_Only(t *testing.T) {
	set := NewSet(manyRules(t, 4, 1))
	assert.ErrorIf(t, set.Challenges(), "a set without challenges has one")
	set.Rules[2].Challenge = Challenge{Passes: 3, Limit: 50}
	assert.ErrorIf(t, !set.Challenges(), "the challenge of many2 is not found")
	assert.Equal(t, set.Rules[2].Challenge.String()+" "+Challenge{Passes: 7}.String(), "3 50 7", "the challenges")
	for policy, want := range map[string]int{"many0": 1, "many1": 2, "many2": 1, "none": 0, "": 4} {
		only := set.Only(policy)
		assert.ErrorIf(t, len(only.Rules) != want || len(set.Rules) != 4 || only.Challenges() != (policy == "many2" || policy == ""),
			"%q: %d rules of %d, challenges: %t", policy, len(only.Rules), len(set.Rules), only.Challenges())
	}
}

func TestSet_RuleOf_many_policies(t *testing.T) {
	set := NewSet(manyRules(t, 2000, 20))
	for i := range set.Rules[:1999] {
		got := set.RuleOf(&limiter.Check{Policy: set.Rules[i].Policy})
		assert.FatalIf(t, got != &set.Rules[i] || got.repeats || got.Index != i, "rule %d is taken for rule %d", i, got.Index)
	}
	if last := &set.Rules[1999]; !last.repeats || set.RuleOf(&limiter.Check{Policy: last.Policy}).Index != 20 {
		t.Error("the last rule repeats the policy of rule 20")
	}
}

func TestSet_Evaluate_merges_repeated_policies(t *testing.T) {
	rules := manyRules(t, 40, 20)
	set := NewSet(rules)
	r, repl := keyRequest("192.0.2.1", nil)
	var e Evaluation
	if err := set.Evaluate(r, repl, &e); err != nil || len(e.Enforced) != 39 || e.Enforced[20].Weight != 2 {
		t.Errorf("%d checks, %v; want 39, of which one takes 2", len(e.Enforced), err)
	}
	rules[20].Numbers.Weight, e = math.MaxInt64, Evaluation{}
	assert.Must(t, NewSet(rules).Evaluate(r, repl, &e))
	assert.Equal(t, e.Enforced[20].Weight, math.MaxInt64, "the sum with the largest weight")
}

// TestSet_Evaluate_visits_rules_after_a_refusal holds what explain relies on.
func TestSet_Evaluate_visits_rules_after_a_refusal(t *testing.T) {
	rules := manyRules(t, 3, 0)[:2]
	empty := assert.NoError(ParseKey("{http.request.header.X-Key}", exact))(t)
	rules[0].Key, rules[0].OnEmptyKey = empty, EmptyKeyReject
	for _, visited := range []bool{false, true} {
		set := NewSet(rules)
		var e Evaluation
		var statuses []Status
		if visited {
			e.OnFinding = func(f Finding) { statuses = append(statuses, f.Status) }
		}
		r, repl := keyRequest("192.0.2.1", nil)
		refused := set.Evaluate(r, repl, &e)
		assert.ErrorIf(t, !IsRefusal(refused) || e.Concerns(), "got %v and %+v; want a refusal and no checks", refused, e)
		assert.ErrorIf(t, visited && (len(statuses) != 2 || statuses[0] != Rejected || statuses[1] != Counts),
			"got the statuses %v, want rejected and counts", statuses)
	}
	rules[0].DryRun = true
	set := NewSet(rules)
	var e Evaluation
	r, repl := keyRequest("192.0.2.1", nil)
	if err := set.Evaluate(r, repl, &e); err != nil || len(e.DryRefusals) != 1 || len(e.Enforced) != 1 {
		t.Errorf("got %v and %+v; want one dry refusal and one check", err, e)
	}
}

func TestExempt_matches_by_the_address_however_it_is_written(t *testing.T) {
	for _, test := range []struct {
		exempt, address string
		want            bool
	}{
		{"10.0.0.0/8", "10.1.1.1", true},
		{"10.0.0.0/8", "::ffff:10.1.1.1", true},
		{"::ffff:10.0.0.0/104", "10.1.1.1", true},
		{"::ffff:10.1.2.3/104", "::ffff:10.1.1.1", true},
		{"::ffff:10.0.0.0/104", "11.1.1.1", false},
		{"::ffff:0:0/96", "203.0.113.7", true},
		{"::ffff:0:0/96", "2001:db8::1", false},
		{"::ffff:10.1.1.1", "10.1.1.1", true},
		{"10.1.1.1", "::ffff:10.1.1.1", true},
		{"2001:db8::/32", "2001:db8::1", true},
		{"fe80::1", "fe80::1%eth0", true},
		{privateRanges, "192.168.7.7", true},
		{privateRanges, "203.0.113.7", false},
	} {
		exempt, err := ParseExempt([]string{test.exempt})
		assert.FatalIf(t, err != nil, "%s: %v", test.exempt, err)
		r, _ := keyRequest(test.address, nil)
		assert.Equal(t, (&Set{Exempt: exempt}).isExempt(r, ""), test.want, "%s, from %s", test.exempt, test.address)
	}
}

// TestSet_Evaluate_exempt_clients tells a client of the option exempt from one whom an override exempts.
func TestSet_Evaluate_exempt_clients(t *testing.T) {
	for address, want := range map[string]bool{"10.1.1.1": true, "192.0.2.1": false} {
		set := NewSet(manyRules(t, 2, 0)[:1])
		set.Exempt = assert.NoError(ParseExempt([]string{"10.0.0.0/8"}))(t)
		r, repl := keyRequest(address, nil)
		var e Evaluation
		assert.Must(t, set.Evaluate(r, repl, &e))
		assert.ErrorIf(t, e.ExemptClient != want || e.Exempted || e.Concerns() == want, "%s: got %+v, want an exempt client: %t", address, e, want)
	}
}

// TestSet_Evaluate_empty_keys has policies in one decision that each do something else about an empty key.
func TestSet_Evaluate_empty_keys(t *testing.T) {
	rules := manyRules(t, 4, 0)[:3]
	for i, mode := range EmptyKeys() {
		key := assert.NoError(ParseKey("{http.request.header.X-"+string(mode)+"}", Prefixes{IPv4: 16 + 8*i, IPv6: 64}))(t)
		rules[i].Key, rules[i].OnEmptyKey = key, mode
	}
	const stand = addressMark + "192.0.0.0/16"
	for name, test := range map[string]struct {
		header  http.Header
		early   bool
		refused int
		keys    []string
	}{
		"all":              {http.Header{"X-Client_ip": {"a"}, "X-Skip": {"b"}, "X-Reject": {"c"}}, false, 0, []string{"a", "b", "c"}},
		"all, early":       {http.Header{"X-Client_ip": {"a"}, "X-Skip": {"b"}, "X-Reject": {"c"}}, true, 0, []string{"a", "b", "c"}},
		"no first":         {http.Header{"X-Skip": {"b"}, "X-Reject": {"c"}}, false, 0, []string{stand, "b", "c"}},
		"no first, early":  {http.Header{"X-Skip": {"b"}, "X-Reject": {"c"}}, true, http.StatusTooEarly, nil},
		"two firsts":       {http.Header{"X-Client_ip": {"a", "b"}, "X-Reject": {"c"}}, false, 0, []string{stand, "c"}},
		"no second":        {http.Header{"X-Client_ip": {"a"}, "X-Reject": {"c"}}, false, 0, []string{"a", "c"}},
		"no second, early": {http.Header{"X-Client_ip": {"a"}, "X-Reject": {"c"}}, true, 0, []string{"a", "c"}},
		"two seconds":      {http.Header{"X-Client_ip": {"a"}, "X-Skip": {"b", "b"}, "X-Reject": {"c"}}, false, http.StatusBadRequest, nil},
		"no third":         {http.Header{"X-Client_ip": {"a"}, "X-Skip": {"b"}}, false, http.StatusBadRequest, nil},
		"no third, early":  {http.Header{"X-Client_ip": {"a"}, "X-Skip": {"b"}}, true, http.StatusBadRequest, nil},
		"two thirds":       {http.Header{"X-Client_ip": {"a"}, "X-Skip": {"b"}, "X-Reject": {"c", "c"}}, false, http.StatusBadRequest, nil},
		"none":             {nil, false, http.StatusBadRequest, nil},
		"none, early":      {nil, true, http.StatusTooEarly, nil},
	} {
		r, repl := keyRequest("192.0.2.1", nil)
		for name, values := range test.header {
			r.Header[name] = values
		}
		if test.early {
			r.TLS = new(tls.ConnectionState)
		}
		var e Evaluation
		refusal := caddyhttp.HandlerError{}
		if errors.As(NewSet(rules).Evaluate(r, repl, &e), &refusal); refusal.StatusCode != test.refused {
			t.Errorf("%s: refused with %d, want %d", name, refusal.StatusCode, test.refused)
		}
		var keys []string
		for i := range e.Enforced {
			keys = append(keys, e.Enforced[i].Key.String())
		}
		assert.ErrorIf(t, !slices.Equal(keys, test.keys), "%s: counted for %q, want %q", name, keys, test.keys)
	}
}

// TestSet_Evaluate_early has the address of early data verified first where a key or turns go by it.
func TestSet_Evaluate_early(t *testing.T) {
	for _, test := range []struct {
		key, by string
		refused int
	}{
		{"same", "", 0},
		{"same", "{http.vars.plan}", 0},
		{"same", "{http.vars.client_ip}", http.StatusTooEarly},
		{"same", "{http.vars.plan}:{http.request.remote.host}", http.StatusTooEarly},
		{"{http.vars.client_ip}", "{http.vars.plan}", http.StatusTooEarly},
	} {
		rules := manyRules(t, 1, 0)
		rules[0].Key = assert.NoError(ParseKey(test.key, exact))(t)
		if test.by != "" {
			rules[0].Wait.By = assert.NoError(ParseTurns(test.by, exact))(t)
		}
		set := NewSet(rules)
		for _, early := range []bool{true, false} {
			r, repl := keyRequest("192.0.2.1", nil)
			if early {
				r.TLS = new(tls.ConnectionState)
			} else {
				test.refused = 0
			}
			refusal := caddyhttp.HandlerError{}
			if errors.As(set.Evaluate(r, repl, new(Evaluation)), &refusal); refusal.StatusCode != test.refused {
				t.Errorf("key %s, by %q, early: %t: refused with %d, want %d", test.key, test.by, early, refusal.StatusCode, test.refused)
			}
		}
		goesBy := strings.Contains(test.key+test.by, "client_ip")
		assert.ErrorIf(t, set.GoesByClient() != goesBy, "key %s, by %q: by the client's address: %t", test.key, test.by, !goesBy)
	}
}

func TestField_repeated(t *testing.T) {
	once := httptest.NewRequest(http.MethodGet, "/?token=a&t=token&x=1;y=token", http.NoBody)
	once.Header = http.Header{"X-Key": {"a, b"}, "Cookie": {"session=a; other=session; sess=b"}}
	for _, test := range []struct {
		placeholder, query string
		header             http.Header
	}{
		{"http.request.header.x-key", "", http.Header{"X-Key": {"a", "b"}}},
		{"http.request.header.X-Key", "", http.Header{"X-Key": {"a", ""}}},
		{"http.request.cookie.session", "", http.Header{"Cookie": {"SESSION=1; session=a"}}},
		{"http.request.cookie.session", "", http.Header{"Cookie": {"session=a", "session=a"}}},
		{"http.request.cookie.session", "", http.Header{"Cookie": {"session=a;session = b"}}},
		{"http.request.cookie.session", "", http.Header{"Cookie": {`session="a\b; x=y; session=1`}}}, // Go drops the first
		{"http.request.uri.query.token", "token=a&token=b", nil},
		{"http.request.uri.query.token", "token=a&x=y&t%6fken=b", nil},
		{"http.request.uri.query.token", "token&token=a", nil},
		{"http.request.uri.query.token", "x=y;token=a&token=b", nil}, // Go drops the first
	} {
		twice := httptest.NewRequest(http.MethodGet, "/?"+test.query, http.NoBody)
		twice.Header = test.header
		f := fieldOf(test.placeholder)
		assert.ErrorIf(t, !f.repeated(twice),
			"%s stands once in %q, %v", test.placeholder, test.query, test.header)
		assert.ErrorIf(t, f.repeated(once) || f.repeated(httptest.NewRequest(http.MethodGet, "/", http.NoBody)),
			"%s stands several times in another request", test.placeholder)
		allocations := testing.AllocsPerRun(10, func() { f.repeated(once) })
		assert.ErrorIf(t, allocations > 0, "a look for %s allocates %v times", test.placeholder, allocations)
	}
}

// FuzzParseKey gives all placeholders of a key one value, then another, and wants two keys.
func FuzzParseKey(f *testing.F) {
	for _, text := range []string{"{p.0}", "{p.0}|{p.1}", "{p.0}{p.1}", `\{a\}{p.0}%41`, "{http.vars.client_ip}", "{", "a}b", `\`, `\{`, "{a.{b}"} {
		f.Add(text, "a", "a|b")
		f.Add(text, "%7C", "|")
		f.Add(text, strings.Repeat("x", 129), strings.Repeat("x", 130))
	}
	f.Fuzz(func(t *testing.T, text, first, second string) {
		template, err := ParseKey(text, exact)
		if err != nil {
			assert.ErrorIf(t, !strings.Contains(err.Error(), "key"), "the error does not name its option: %v", err)
			return
		}
		placeholders := 0
		values := [2]map[string]string{{}, {}}
		for _, part := range template.parts {
			if part.address || part.field.kind == headerField {
				return // whose values come from elsewhere
			}
			if part.Name != "" {
				placeholders++
				values[0][part.Name], values[1][part.Name] = first, second
			}
		}
		var keys [2]string
		for i := range keys {
			r, repl := keyRequest("192.0.2.1", values[i])
			keys[i] = template.key(&request{Request: r, repl: repl}).String()
			assert.ErrorIf(t, len(keys[i]) > 128 || strings.ContainsAny(keys[i], "{}"), "the key %q is too long or has braces", keys[i])
			assert.Equal(t, template.key(&request{Request: r, repl: repl}).String(), keys[i], "the key of a request that had %q", keys[i])
		}
		if placeholders > 0 && first != second && keys[0] == keys[1] {
			t.Errorf("key %q is %q for %q and for %q", text, keys[0], first, second)
		}
	})
}
