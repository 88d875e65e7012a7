package adminserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"
	"weak"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/livepage"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// How many entries the page shows of each list.
const (
	pageKeys      = 20
	pageBans      = 100
	pageOverrides = 100
	pageHandlers  = 10
)

// keptBy names the owner of what is looked up, which may be freed meanwhile.
func keptBy[T any](owner *T) weak.Pointer[T] { return weak.Make(owner) }

// servePage answers with the document of the live page, or with what is new of it.
func (s *Server) servePage(
	_ context.Context, question adminapi.PageQuestion, stores *storepool.Stores,
) (json.RawMessage, bool, error) {
	document := livepage.Document{At: time.Now(), Points: stores.Memory.Names.Points}
	section := func(name string, value any, known bool) error {
		if !known {
			return nil // it comes with a later answer
		}
		text, err := json.Marshal(value)
		document.Sections = append(document.Sections, livepage.Section{Name: name, Value: text})
		return err
	}
	top, topKnown := s.Process.page.top.Get(keptBy(s), withStores(s, s.pageTop))
	used, usedKnown := s.Process.page.used.Get(keptBy(s), withStores(s, s.pageUsed))
	node, nodeKnown := s.Process.page.node.Get(s.Process, s.Process.pageNode)
	nodes, nodesKnown := s.Process.page.nodes.Get(keptBy(stores.Redis), withStores(s, s.pageNodes))
	bans, bansKnown := s.Process.page.bans.Get(keptBy(stores.Redis), withStores(s, s.pageBans))
	applied, appliedKnown := s.Process.page.overrides.Get(keptBy(s.Stores.Overrides), withStores(s, pageOverridesOf))
	err := cmp.Or(
		section("node", node, nodeKnown), section("store", s.pageStore(stores), true), section("nodes", nodes, nodesKnown), section("top", top, topKnown),
		section("used", used, usedKnown), section("browsers", s.Process.browsers(), slices.ContainsFunc(s.Rules, (*rule.Set).Challenges)),
		section("crawlers", s.pageCrawlers(), s.Crawlers != nil),
		section("bans", bans, bansKnown), section("overrides", applied, appliedKnown),
		section("warnings", adminapi.PageWarnings(s.Process.pool.Warnings.List()), true),
	)
	if err != nil {
		return nil, false, err
	}
	if document.Policies, err = s.pagePolicies(stores); err != nil {
		return nil, false, err
	}
	return s.Process.page.feed.Answer(question.Since, &document), false, nil
}

// withStores returns a function that looks something up in the stores of an app, which stay open meanwhile.
func withStores[T any](s *Server, look func(*storepool.Stores) T) func() T {
	return func() T {
		stores := s.Stores.Use()
		defer stores.End()
		return look(stores)
	}
}

// pageStore tells how the store is. While Redis has not answered this question, the page has the answer to the last one.
func (s *Server) pageStore(stores *storepool.Stores) adminapi.StoreReport {
	report := s.storeFacts(stores)
	if stores.Redis == nil {
		return report
	}
	probed, found := s.Process.page.store.Get(keptBy(stores.Redis), withStores(s, func(stores *storepool.Stores) (r adminapi.StoreReport) {
		ctx, cancel := context.WithTimeout(context.Background(), dial.ConnectBudget)
		defer cancel()
		s.probe(ctx, stores, &r)
		return r
	}))
	if !found {
		probed.Error = "redis has not answered yet"
	}
	report.Healthy, report.Error, report.RoundTrip = probed.Healthy, probed.Error, probed.RoundTrip
	report.FailingSince, report.DecidingSince = probed.FailingSince, probed.DecidingSince
	return report
}

// pagePolicies describes the policies, with what they have met, by their names.
func (s *Server) pagePolicies(stores *storepool.Stores) ([]livepage.Row, error) {
	described, known := s.Process.page.policies.Get(keptBy(s), s.describeForPage)
	if !known {
		return nil, errors.New("describing the policies takes long; ask again")
	}
	gauges := stores.Memory.Names.Gauges()
	rows := make([]livepage.Row, 0, len(described))
	for _, name := range slices.Sorted(maps.Keys(described)) {
		registered := s.Policies[name]
		counts := registered.Counters.Counts()
		row := adminapi.PageCounts{CountsReport: countsReport(&counts)}
		if registered.Policy.CountsRunning {
			row.Running = new(gauges.Running[name])
		}
		if registered.Policy.Settings.Waits {
			row.Waiting = new(gauges.Waiting[name])
		}
		all, clients := s.Stores.Overrides.OfPolicy(name)
		if counts.ReserveDenied > 0 {
			row.ReserveDenied = &counts.ReserveDenied
		}
		row.Override, row.ClientOverrides = routetrace.Override(all), clients
		text, err := json.Marshal(row)
		if err != nil {
			return nil, err
		}
		rows = append(rows, livepage.Row{Name: name, About: described[name], Counts: text})
	}
	return rows, nil
}

// describeForPage describes the policies of the configuration as JSON. Of texts there always is some.
func (s *Server) describeForPage() map[string]json.RawMessage {
	texts := map[string]json.RawMessage{}
	for name, p := range s.Describe() {
		texts[name], _ = json.Marshal(pagePolicy(p))
	}
	return texts
}

// pagePolicy says what a configuration says of a policy.
func pagePolicy(p *display.PolicyDescription) adminapi.PagePolicy {
	about, common := adminapi.PagePolicy{Sentence: p.Sentence()}, p.Common()
	for _, o := range append(p.Options(), common...) {
		if o.Name != "match" {
			about.Options = append(about.Options, adminapi.PageOption{Name: o.Name, Value: o.Value})
		}
	}
	for i := range p.Handlers[:min(len(p.Handlers), pageHandlers)] {
		about.Handlers = append(about.Handlers, p.Handlers[i].Text(common))
	}
	about.More = len(p.Handlers) - len(about.Handlers)
	return about
}

// pageTop lists the keys that were denied most, and why each is denied now, as far as this process knows.
func (s *Server) pageTop(stores *storepool.Stores) adminapi.PageTop {
	keys, since := topKeys(s.Policies, pageKeys)
	top := adminapi.PageTop{Begin: toSecond(time.Now().Add(-since)), Keys: []adminapi.PageKey{}}
	for _, k := range keys {
		key := adminapi.PageKey{Policy: k.Policy, Key: k.Key, Denied: k.Denied, Error: k.Error}
		if key.Override = s.blockOf(k.Policy, k.Key); key.Override != nil {
			key.Why, key.Until = adminapi.WhyBlocked, key.Override.Until
		} else {
			key.Why, key.Until = s.whyDenied(stores, k.Policy, k.Key)
		}
		top.Keys = append(top.Keys, key)
	}
	return top
}

// blockOf returns the override that blocks a key that was shown; nil: none does.
func (s *Server) blockOf(policy, shown string) *adminapi.OverrideEntry {
	text, err := display.ParseKey(shown)
	if err != nil { // which no key that was shown has
		return nil
	}
	client, _, _ := rule.CutPass(limiter.AsEncoded(text))
	if e, _ := s.overrideOfKey(policy, client); e != nil && e.Action == overrides.Block {
		return routetrace.Override(e)
	}
	return nil
}

// whyDenied returns why a key that no override blocks is denied, and until when that lasts, if it has an end.
func (s *Server) whyDenied(stores *storepool.Stores, policy, shown string) (adminapi.Why, *time.Time) {
	registered := s.Policies[policy]
	text, err := display.ParseKey(shown)
	if err != nil { // which no key that was shown has
		return adminapi.WhyLimit, nil
	}
	check := limiter.Check{Policy: registered.Policy, Key: limiter.AsEncoded(text)}
	stores.PeekLocal(&check)
	switch {
	case check.Result.Banned:
		return adminapi.WhyBanned, new(toSecond(time.Now().Add(check.Result.BanLeft)))
	case registered.Policy.CountsRunning:
		return adminapi.WhyRunning, nil
	}
	return adminapi.WhyLimit, nil
}

// pageUsed lists the keys that have used most on this node.
func (s *Server) pageUsed(stores *storepool.Stores) adminapi.PageUsed {
	keys, _ := mostUsed([][]storepool.PolicyUsage{s.usage(stores, storepool.AllPolicies)}, pageKeys)
	return adminapi.PageUsed{About: "Units on this node in the last five to ten minutes, denied or not.", Keys: keys}
}

// toSecond returns the nearest second, so that an instant that is worked out again stays the same.
func toSecond(at time.Time) time.Time { return at.UTC().Round(time.Second) }

// pageBans lists the banned of all nodes.
func (s *Server) pageBans(stores *storepool.Stores) adminapi.PageBans {
	list, complete, err := s.banned(context.Background(), stores, "") // has a budget of its own
	now := time.Now()
	bans := adminapi.PageBans{Complete: complete, Total: len(list), Bans: []adminapi.PageBan{}}
	if err != nil {
		bans.Error = adminapi.UnavailableText(err)
	}
	for _, b := range list[:min(len(list), pageBans)] {
		bans.Bans = append(bans.Bans, adminapi.PageBan{
			Policy: b.Policy, Key: display.EscapeKey(b.Key.String()), Until: toSecond(now.Add(b.Left)), Offenses: b.Offenses,
		})
	}
	return bans
}

// pageOverridesOf lists the overrides that this node applies.
func pageOverridesOf(stores *storepool.Stores) adminapi.PageOverrides {
	known := stores.Overrides.Known()
	listed := adminapi.PageOverrides{Stale: stores.Overrides.Stale(), Total: len(known), Overrides: []adminapi.OverrideEntry{}}
	for _, e := range known[:min(len(known), pageOverrides)] {
		listed.Overrides = append(listed.Overrides, *routetrace.Override(e))
	}
	return listed
}
