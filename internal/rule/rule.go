// Package rule finds out which policies apply to a request, whose quota each of them takes from, and how many units.
// [Set.Evaluate] is the way of a request; what a response costs is in cost.go.
//
// The handler, explain and replay evaluate the same [Set], so that explain and replay show what the handler charges.
package rule

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
)

// Rule is a policy as one handler applies it.
type Rule struct {
	// Policy is what stores decide by. If its numbers come from placeholders, it has the fallbacks.
	Policy *limiter.Policy

	// Key makes the client's key of a request.
	Key KeyTemplate

	// OnEmptyKey says what happens to a request for which a placeholder of the key is empty; required.
	OnEmptyKey EmptyKey

	// Numbers are the weight, and the placeholders of limit, burst and weight.
	Numbers numbers

	// Match selects the requests that count; empty: all.
	Match caddyhttp.MatcherSets

	// MatchBody are the values of the request's body that Match asks for.
	MatchBody []bodyvalue.ValueSource

	// PassUnread has the rule not match if one of these values cannot be read. By default the request is refused.
	PassUnread bool

	// DryRun says that the rule decides and counts, but never denies.
	DryRun bool

	// Rollout selects the keys that the rule is enforced for; nil: all. For the other keys the rule is a dry run.
	Rollout *Rollout

	// Notify are the fractions of the capacity at which an event is emitted when a quota is used up to there; none: no
	// event.
	Notify []Fraction

	// Count selects, of these requests, the requests that take units; the others look at one unit. Empty: all take.
	Count caddyhttp.MatcherSets

	// CountBody are the values of the request's body that Count asks for. A request of which one cannot be read is refused, or
	// takes with PassUnread.
	CountBody []bodyvalue.ValueSource

	// CountIf selects the responses that count; nil: all.
	CountIf *caddyhttp.ResponseMatcher

	// InFlight is how many units of a key look at once on a node before their response is known, from 0 to [MostInFlight]. Only
	// with CountIf. Nil: [DefaultInFlight] for safe requests by address alone, otherwise 0.
	InFlight *int64

	// Cost says what a request costs in all, known after its response. The weight is taken before the response.
	Cost Cost

	// Reserve is how much of the quota must remain for others when a request passes.
	Reserve Reserve

	// Challenge lets denied browsers wait on a page instead of refusing them, for quotas of passes.
	Challenge Challenge

	// Opens lets browsers that are denied by Reserve wait on a page, for what is reserved.
	Opens bool

	// Wait says how requests wait for units of running requests.
	Wait Wait

	// ShowsIETF says that the handler shows the RateLimit headers, with the rules whose [Rule.Unit] has a name there.
	ShowsIETF bool

	// Texts are some of the rule's options as they are configured.
	Texts texts

	// Describer knows the options that the rule was made of.
	Describer Describer

	// Index is the rule's place in its set. [NewSet] sets it.
	Index int

	hidden *hiddenWatch // nil: nothing is looked for

	// What [NewSet] finds out once, so that no request has to find it out.
	repeats    bool          // an earlier rule of the set has the same policy
	readsBody  bool          // the key or a number is a value of the request's body
	keysBody   bool          // the key is
	selects    bool          // by Match or Count
	match      selector      // Match
	count      selector      // Count
	first      int           // the place of the first rule whose policy has the same name
	looking    looking       // by CountIf and InFlight
	isConstant bool          // all requests take the same, by limit, burst and weight, or look at it first
	isPlain    bool          // nor does a request look first, and no earlier rule has the same policy
	baseCheck  limiter.Check // what every request of a constant rule takes; the key is missing
}

// prepare sets isConstant, isPlain and baseCheck.
func (r *Rule) prepare() {
	n := &r.Numbers
	if r.looking = (looking{}); r.CountIf != nil && !r.estimates() {
		r.looking = lookingOf(r.InFlight, r.Key.isOfAddressAlone())
	}
	r.isConstant = n.LimitFrom.Name+n.BurstFrom.Name+n.WeightFrom.Name+n.DayFrom.Name == "" && len(r.Count) == 0
	r.isPlain = r.looking.inFlight == 0 && !r.repeats
	r.baseCheck = limiter.Check{
		Policy: r.Policy, Weight: n.Weight, Reserve: r.Reserve.of(r.Policy), Refundable: r.refunds(), Charges: r.Cost.From != "", Unit: r.Unit(),
	}
}

// Wait says how requests wait for units of running requests. The zero value: they do not.
type Wait struct {
	Longest time.Duration // the longest wait; 0: no request waits
	Most    int           // of a key that wait on a node at once

	// By makes what turns go round by; nil: requests have their turns in the order of their arrival.
	By *KeyTemplate
}

// texts are options as they are configured; empty: the option is left out. The key has its default then, and IsKeyless is true.
type texts struct {
	Key, Cost, Turns string
	IsKeyless        bool
}

// Describer describes the policy of a rule, with the handler whose rule it is. The place is missing.
type Describer interface {
	Describe(r *Rule) display.PolicyDescription
}

// Describe describes the rule's policy, with the handler whose rule it is. The place is missing.
func (r *Rule) Describe() display.PolicyDescription { return r.Describer.Describe(r) }

// EmptyKey says what happens to a request for which a placeholder of a key is empty.
type EmptyKey string

// The values of on_empty_key.
const (
	EmptyKeyClientIP EmptyKey = "client_ip" // the client's address takes the key's place
	EmptyKeySkip     EmptyKey = "skip"      // the rule is left out
	EmptyKeyReject   EmptyKey = "reject"    // the request is refused with 400
)

// EmptyKeys lists the values of on_empty_key, the default first.
func EmptyKeys() []EmptyKey { return []EmptyKey{EmptyKeyClientIP, EmptyKeySkip, EmptyKeyReject} }

// Set is the rules of one handler. [NewSet] makes one.
type Set struct {
	// Rules are evaluated in this order: last the rules for which the request's body may have to be read. The slice must not
	// be replaced.
	Rules []Rule

	// BodyPlan is the values of request bodies that the rules use.
	BodyPlan *bodyvalue.Plan

	// Exempt are the addresses of clients that no rule applies to.
	Exempt []netip.Prefix

	// ExemptSources are ranges of such clients that change.
	ExemptSources []*ExemptSource

	// ExemptCrawlers are the names of crawlers that no rule applies to.
	ExemptCrawlers []string

	// Warn is called for every value of a placeholder or of a response's body that cannot be used. The fallback is
	// used instead, or for a key the rule's OnEmptyKey. The error quotes no value, which may come from a client. Nil:
	// nothing is called.
	Warn func(r *Rule, option string, err error)

	// OnNeverSet is called once for a placeholder that was empty in each of the first 100 requests that needed the
	// placeholder, with its name without braces. Nil: nothing is called.
	OnNeverSet func(r *Rule, option, placeholder string)

	// OnNewlyUnreadable is called for a value of a placeholder that is unreadable, and that version 1.0 counted as it stood. Nil:
	// nothing is called.
	OnNewlyUnreadable func(r *Rule, placeholder string, err error)

	// OnMissingAddress is called for every request over a unix socket that lacks the client's address, if a rule's key
	// needs the address. Nil: nothing is called.
	OnMissingAddress func(r *Rule, remedy string)

	// Overrides are the limits, blocks and exemptions that operators have set for keys of the policies. Nil: no overrides.
	Overrides *overrides.Live

	// Newest returns a policy of the configuration that runs now by its name; false: that has none. Requests that wait are
	// decided by it. Nil: by the set's own rules.
	Newest func(policy string) (Newest, bool)

	bodiless int                  // how many rules use no value of the request's body
	bodies   bodyvalue.NumberPlan // of the rules' costs
}

// NewSet makes a set of rules, of which it puts those at the end that use values of the request's body.
func NewSet(rules []Rule) *Set {
	s := &Set{BodyPlan: new(bodyvalue.Plan)}
	named := make(map[string]bool, len(rules)) // the IDs of policies so far
	first := make(map[string]int, len(rules))  // by the names of policies so far
	var ofBody []Rule
	for _, r := range rules {
		if r.planBody(s.BodyPlan); r.usesBody() {
			ofBody = append(ofBody, r)
		} else {
			s.add(r, named, first)
		}
	}
	s.bodiless = len(s.Rules)
	for _, r := range ofBody {
		s.add(r, named, first)
	}
	return s
}

// add adds a rule behind the others, its policy to those that they name, and its place to the first ones of names.
func (s *Set) add(r Rule, named map[string]bool, first map[string]int) {
	if source, ok := r.Cost.source.(bodySource); ok {
		r.Cost.source = source.planned(&s.bodies)
	}
	r.Index, r.repeats = len(s.Rules), named[r.Policy.ID]
	if _, found := first[r.Policy.Settings.Name]; !found {
		first[r.Policy.Settings.Name] = r.Index
	}
	r.first = first[r.Policy.Settings.Name]
	named[r.Policy.ID] = true
	r.match, r.count = newSelector("match", r.Match, r.CountIf != nil), newSelector("count", r.Count, false)
	r.selects = len(r.Match)+len(r.Count) > 0
	r.prepare()
	s.Rules = append(s.Rules, r)
}

// planBody has the rule's values of the body be read by a plan.
func (r *Rule) planBody(plan *bodyvalue.Plan) {
	n := &r.Numbers
	for _, p := range []*Placeholder{&n.LimitFrom, &n.BurstFrom, &n.WeightFrom} {
		r.readsBody = p.planBody(plan) || r.readsBody
	}
	r.Key.parts = slices.Clone(r.Key.parts) // which other sets may have, with numbers of their plans
	for i := range r.Key.parts {
		if r.Key.parts[i].planBody(plan) {
			r.readsBody, r.keysBody = true, true
		}
	}
	if by := r.Wait.By; by != nil {
		own := *by
		own.parts = slices.Clone(by.parts)
		for i := range own.parts {
			r.readsBody = own.parts[i].planBody(plan) || r.readsBody
		}
		r.Wait.By = &own
	}
	for _, sources := range [][]bodyvalue.ValueSource{r.MatchBody, r.CountBody} {
		for _, source := range sources {
			plan.Add(source)
		}
	}
}

// usesBody reports whether a value of the body decides about the rule, which is one of a set.
func (r *Rule) usesBody() bool { return r.readsBody || len(r.MatchBody)+len(r.CountBody) > 0 }

// BodyOptions lists the rule's options that go by values of the request's body.
func (r *Rule) BodyOptions() (names []string) {
	n := &r.Numbers
	for _, option := range []struct {
		name string
		uses bool
	}{
		{"key", r.Key.ReadsBody()}, {"match", len(r.MatchBody) > 0}, {"count", len(r.CountBody) > 0}, {r.limitOption(), n.LimitFrom.isOfBody()},
		{"burst", n.BurstFrom.isOfBody()}, {"weight", n.WeightFrom.isOfBody()}, {"wait", r.Wait.By != nil && r.Wait.By.ReadsBody()},
	} {
		if option.uses {
			names = append(names, option.name)
		}
	}
	return names
}

// looksByBody reports whether a request that only looks needs a value of its body: for the key or the limit, and not for the
// weight, which is one unit.
func (r *Rule) looksByBody() bool {
	return r.keysBody || r.Numbers.LimitFrom.isOfBody() || r.Numbers.BurstFrom.isOfBody()
}

// LooksFirst returns how many units of a key look at once on a node before their response is known, and whether those alone
// do that are safe: GET, HEAD, OPTIONS and TRACE without a credential. Most is 0 if all requests take.
func (r *Rule) LooksFirst() (most int64, onlySafe bool) {
	return r.looking.inFlight, r.looking.onlySafe
}

// ReadsBody reports whether the set reads request bodies.
func (s *Set) ReadsBody() bool { return !s.BodyPlan.IsEmpty() }

// Replace replaces the policy of rules by another policy with the same ID, the base of the variants. No request may be
// evaluated at the same time.
func (s *Set) Replace(v *Variants) {
	for i := range s.Rules {
		if r := &s.Rules[i]; r.Policy.ID == v.base.ID {
			r.Policy, r.Numbers.Variants = v.base, v
			r.prepare()
		}
	}
}

// Only returns a new set of the rules with a policy; empty: of all rules. The new set has no overrides.
func (s *Set) Only(policy string) *Set {
	only := NewSet(slices.DeleteFunc(slices.Clone(s.Rules), func(r Rule) bool { return policy != "" && r.Policy.Name() != policy }))
	only.Exempt, only.ExemptSources, only.ExemptCrawlers = s.Exempt, s.ExemptSources, s.ExemptCrawlers
	return only
}

// RuleOf returns the first rule that a check may come from. The policy of the check is the rule's, or differs from it
// in limit, burst and the day that months begin on, so that both have one name.
func (s *Set) RuleOf(check *limiter.Check) *Rule {
	for i := range s.Rules {
		if s.Rules[i].Policy == check.Policy {
			return &s.Rules[s.Rules[i].first]
		}
	}
	name := check.Policy.Settings.Name
	for i := range s.Rules {
		if s.Rules[i].Policy.Settings.Name == name {
			return &s.Rules[i]
		}
	}
	return nil
}

// Challenges reports whether a rule lets browsers wait.
func (s *Set) Challenges() bool {
	return slices.ContainsFunc(s.Rules, func(r Rule) bool { return r.Challenges() })
}

// Challenges reports whether the rule lets denied browsers wait.
func (r *Rule) Challenges() bool { return r.Challenge.Passes > 0 || r.Opens }

// Enforces reports whether the rule denies requests of a key. For other keys the rule is a dry run.
func (r *Rule) Enforces(key limiter.EncodedKey) bool { return !r.DryRun && r.Rollout.selects(key) }

// refusesWithoutKey reports whether the rule refuses a request that yields no key, for a reason. A rule that is being
// rolled out refuses only requests whose client could have sent a key, as early or repeated ones: otherwise enforce 1%
// would refuse all requests without a key at once.
func (r *Rule) refusesWithoutKey(reason error) bool {
	if r.DryRun || r.Rollout == nil {
		return !r.DryRun
	}
	var unread unreadError
	return r.Rollout.fraction > 0 && (errors.Is(reason, errEarly) || errors.As(reason, &unread) && !unread.reason.IsOfBody())
}

// Placeholders lists the names of the placeholders that the rule's key, limit, burst and weight are made of.
func (r *Rule) Placeholders() (names []string) {
	names = r.Key.Placeholders()
	for _, p := range []*Placeholder{&r.Numbers.LimitFrom, &r.Numbers.BurstFrom, &r.Numbers.WeightFrom} {
		if p.Name != "" && !p.isWord() {
			names = append(names, p.Name)
		}
	}
	if by := r.Wait.By; by != nil {
		names = append(names, by.Placeholders()...)
	}
	return names
}

// RequestHeaders lists the request headers that the rule's key, limit, burst, weight and turns are made of, in their
// canonical form.
func (r *Rule) RequestHeaders() (names []string) {
	fields := []field{r.Numbers.LimitFrom.field, r.Numbers.BurstFrom.field, r.Numbers.WeightFrom.field}
	for i := range r.Key.parts {
		fields = append(fields, r.Key.parts[i].field)
	}
	if by := r.Wait.By; by != nil {
		for i := range by.parts {
			fields = append(fields, by.parts[i].field)
		}
	}
	for _, f := range fields {
		if f.isHeader() {
			names = append(names, f.name)
		}
	}
	return names
}

// WatchHidden has the denials of rules whose key has a client's address looked at. The function is called, once a rule, if
// each of the first 1,000 came from the same private address, without a header that names a client.
func (s *Set) WatchHidden(report func(r *Rule)) {
	for i := range s.Rules {
		if r := &s.Rules[i]; r.Key.HasAddress() {
			r.hidden = &hiddenWatch{report: func() { report(r) }}
		}
	}
}

// LookAtDenial looks at a request that a rule denies.
func (r *Rule) LookAtDenial(request *http.Request) {
	if w := r.hidden; w != nil && w.denials.Load() >= 0 {
		w.look(request)
	}
}
