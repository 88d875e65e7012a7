package rule

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// manyRules are rules of so many policies, of which one stands twice.
func manyRules(t *testing.T, n, again int) []Rule {
	t.Helper()
	var rules []Rule
	for i := range n {
		policy, err := limiter.NewPolicy(limiter.Settings{Name: fmt.Sprint("many", i), Limit: 1000, Window: time.Hour, Algorithm: "gcra"})
		redistest.Must(t, err)
		key, err := ParseKey("{http.vars.client_ip}", exact)
		redistest.Must(t, err)
		rules = append(rules, Rule{Policy: policy, Key: key, Numbers: Numbers{Weight: 1}})
	}
	rules[n-1].Policy = rules[again].Policy
	return rules
}

func TestSet_RuleOf_many_policies(t *testing.T) {
	set := NewSet(manyRules(t, 2000, 20))
	for i := range set.Rules[:1999] {
		got := set.RuleOf(&limiter.Check{Policy: set.Rules[i].Policy})
		redistest.FatalIf(t, got != &set.Rules[i] || got.repeats || got.Index != i, "rule %d is taken for rule %d", i, got.Index)
	}
	if last := &set.Rules[1999]; !last.repeats || set.RuleOf(&limiter.Check{Policy: last.Policy}).Index != 20 {
		t.Error("the last rule repeats the policy of rule 20")
	}
}

func TestSet_Evaluate_merges_repeated_policies(t *testing.T) {
	set := NewSet(manyRules(t, 40, 20))
	r, repl := keyRequest("192.0.2.1", nil)
	var e Evaluation
	if err := set.Evaluate(r, repl, &e); err != nil || len(e.Enforced) != 39 || e.Enforced[20].Weight != 2 {
		t.Errorf("%d checks, %v; want 39, of which one takes 2", len(e.Enforced), err)
	}
}

// TestSet_Evaluate_visits_rules_after_a_refusal holds what explain relies on.
func TestSet_Evaluate_visits_rules_after_a_refusal(t *testing.T) {
	rules := manyRules(t, 3, 0)[:2]
	empty, err := ParseKey("{http.request.header.X-Key}", exact)
	redistest.Must(t, err)
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
		redistest.ErrorIf(t, !IsRefusal(refused) || e.Concerns(), "got %v and %+v; want a refusal and no checks", refused, e)
		if visited && (len(statuses) != 2 || statuses[0] != Rejected || statuses[1] != Counts) {
			t.Errorf("got the statuses %v, want rejected and counts", statuses)
		}
	}
	rules[0].DryRun = true
	set := NewSet(rules)
	var e Evaluation
	r, repl := keyRequest("192.0.2.1", nil)
	if err := set.Evaluate(r, repl, &e); err != nil || len(e.DryRefusals) != 1 || len(e.Enforced) != 1 {
		t.Errorf("got %v and %+v; want one dry refusal and one check", err, e)
	}
}
