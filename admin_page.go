package redisratelimit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"time"
	"weak"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/description"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/pagefeed"
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

// livePage is what the process keeps for viewers of the live page. What takes time, or asks Redis, is looked up in the
// background and only while there are viewers.
type livePage struct {
	feed      *pagefeed.Feed
	store     pagefeed.Lookup[adminapi.StoreReport]
	bans      pagefeed.Lookup[adminapi.PageBans]
	top       pagefeed.Lookup[adminapi.PageTop]
	used      pagefeed.Lookup[adminapi.PageUsed]
	overrides pagefeed.Lookup[adminapi.PageOverrides]

	// policies are the descriptions of a configuration by name, which stay the same. They are made once they are asked for,
	// since the routes are complete then.
	policies pagefeed.Lookup[map[string]json.RawMessage]
}

// lookEvery is less than the second after which a viewer asks again.
const lookEvery = 900 * time.Millisecond

var page = livePage{
	feed:      pagefeed.New(),
	store:     pagefeed.Lookup[adminapi.StoreReport]{Every: lookEvery, Patience: 150 * time.Millisecond},
	bans:      pagefeed.Lookup[adminapi.PageBans]{Every: 10 * time.Second, Patience: 150 * time.Millisecond}, // scans all keys
	top:       pagefeed.Lookup[adminapi.PageTop]{Every: lookEvery, Patience: 150 * time.Millisecond},
	used:      pagefeed.Lookup[adminapi.PageUsed]{Every: 10 * time.Second, Patience: 150 * time.Millisecond}, // asks all policies
	overrides: pagefeed.Lookup[adminapi.PageOverrides]{Every: lookEvery, Patience: 150 * time.Millisecond},
	policies:  pagefeed.Lookup[map[string]json.RawMessage]{Every: math.MaxInt64, Patience: 10 * time.Second},
}

// keptBy names the owner of what is looked up, which may be freed meanwhile.
func keptBy[T any](owner *T) weak.Pointer[T] { return weak.Make(owner) }

// servePage answers with the document of the live page, or with what is new of it.
func (a *App) servePage(
	_ context.Context, question adminapi.PageQuestion, stores *storepool.Stores,
) (json.RawMessage, bool, error) {
	var node adminapi.PageNode
	node.Version, node.Caddy = adminapi.ModuleVersions()
	document := pagefeed.Document{At: time.Now(), Points: stores.Memory.Names.Points}
	section := func(name string, value any, known bool) error {
		if !known {
			return nil // it comes with a later answer
		}
		text, err := json.Marshal(value)
		document.Sections = append(document.Sections, pagefeed.Section{Name: name, Value: text})
		return err
	}
	top, topKnown := page.top.Get(keptBy(a), withStores(a, a.pageTop))
	used, usedKnown := page.used.Get(keptBy(a), withStores(a, a.pageUsed))
	bans, bansKnown := page.bans.Get(keptBy(stores.Redis), withStores(a, a.pageBans))
	applied, appliedKnown := page.overrides.Get(keptBy(a.overrides), withStores(a, pageOverridesOf))
	err := cmp.Or(
		section("node", node, true), section("store", a.pageStore(stores), true), section("top", top, topKnown),
		section("used", used, usedKnown), section("browsers", browsersThatWait(), slices.ContainsFunc(a.rules, (*rule.Set).Challenges)),
		section("crawlers", a.crawlers.pageCounts(), a.crawlers != nil),
		section("bans", bans, bansKnown), section("overrides", applied, appliedKnown),
		section("warnings", adminapi.PageWarnings(pool.Warnings.List()), true),
	)
	if err != nil {
		return nil, false, err
	}
	if document.Policies, err = a.pagePolicies(stores); err != nil {
		return nil, false, err
	}
	return page.feed.Answer(question.Since, &document), false, nil
}

// withStores returns a function that looks something up in the stores of an app, which stay open meanwhile.
func withStores[T any](a *App, look func(*storepool.Stores) T) func() T {
	return func() T {
		stores := a.use()
		defer stores.End()
		return look(stores)
	}
}

// pageStore tells how the store is. While Redis has not answered this question, the page has the answer to the last one.
func (a *App) pageStore(stores *storepool.Stores) adminapi.StoreReport {
	report := a.storeFacts(stores)
	if stores.Redis == nil {
		return report
	}
	probed, found := page.store.Get(keptBy(stores.Redis), withStores(a, func(stores *storepool.Stores) (r adminapi.StoreReport) {
		ctx, cancel := context.WithTimeout(context.Background(), dial.ConnectBudget)
		defer cancel()
		a.probe(ctx, stores, &r)
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
func (a *App) pagePolicies(stores *storepool.Stores) ([]pagefeed.Policy, error) {
	described, known := page.policies.Get(keptBy(a), a.describeForPage)
	if !known {
		return nil, errors.New("describing the policies takes long; ask again")
	}
	gauges := stores.Memory.Names.Gauges()
	rows := make([]pagefeed.Policy, 0, len(described))
	for _, name := range slices.Sorted(maps.Keys(described)) {
		registered := a.registered[name]
		counts := registered.counters.Counts()
		row := adminapi.PageCounts{CountsReport: countsReport(&counts)}
		if registered.policy.CountsRunning {
			row.Running = new(gauges.Running[name])
		}
		if registered.policy.Settings.Waits {
			row.Waiting = new(gauges.Waiting[name])
		}
		all, clients := a.overrides.OfPolicy(name)
		if counts.ReserveDenied > 0 {
			row.ReserveDenied = &counts.ReserveDenied
		}
		row.Override, row.ClientOverrides = routetrace.Override(all), clients
		text, err := json.Marshal(row)
		if err != nil {
			return nil, err
		}
		rows = append(rows, pagefeed.Policy{Name: name, About: described[name], Counts: text})
	}
	return rows, nil
}

// describeForPage describes the policies of the configuration as JSON. Of texts there always is some.
func (a *App) describeForPage() map[string]json.RawMessage {
	texts := map[string]json.RawMessage{}
	for name, p := range a.describedPolicies() {
		if a.opened.Options == nil {
			p.Lease = nil // which it has without Redis
		}
		texts[name], _ = json.Marshal(pagePolicy(p))
	}
	return texts
}

// pagePolicy says what a configuration says of a policy.
func pagePolicy(p *description.Policy) adminapi.PagePolicy {
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
func (a *App) pageTop(stores *storepool.Stores) adminapi.PageTop {
	keys, since := topKeys(a.registered, pageKeys)
	top := adminapi.PageTop{Begin: toSecond(time.Now().Add(-since)), Keys: []adminapi.PageKey{}}
	for _, k := range keys {
		key := adminapi.PageKey{Policy: k.Policy, Key: k.Key, Denied: k.Denied, Error: k.Error}
		if key.Override = a.blockOf(k.Policy, k.Key); key.Override != nil {
			key.Why, key.Until = adminapi.WhyBlocked, key.Override.Until
		} else {
			key.Why, key.Until = a.whyDenied(stores, k.Policy, k.Key)
		}
		top.Keys = append(top.Keys, key)
	}
	return top
}

// blockOf returns the override that blocks a key that was shown; nil: none does.
func (a *App) blockOf(policy, shown string) *adminapi.OverrideEntry {
	text, err := display.ParseKey(shown)
	if err != nil { // which no key that was shown has
		return nil
	}
	client, _, _ := rule.CutPass(limiter.AsEncoded(text))
	if e, _ := a.overrideOfKey(policy, client); e != nil && e.Action == overrides.Block {
		return routetrace.Override(e)
	}
	return nil
}

// whyDenied returns why a key that no override blocks is denied, and until when that lasts, if it has an end.
func (a *App) whyDenied(stores *storepool.Stores, policy, shown string) (adminapi.Why, *time.Time) {
	registered := a.registered[policy]
	text, err := display.ParseKey(shown)
	if err != nil { // which no key that was shown has
		return adminapi.WhyLimit, nil
	}
	check := limiter.Check{Policy: registered.policy, Key: limiter.AsEncoded(text)}
	stores.PeekLocal(&check)
	switch {
	case check.Result.Banned:
		return adminapi.WhyBanned, new(toSecond(time.Now().Add(check.Result.BanLeft)))
	case registered.policy.CountsRunning:
		return adminapi.WhyRunning, nil
	}
	return adminapi.WhyLimit, nil
}

// pageUsed lists the keys that have used most on this node.
func (a *App) pageUsed(stores *storepool.Stores) adminapi.PageUsed {
	keys, _ := mostUsed([][]storepool.PolicyUsage{a.usage(stores, storepool.AllPolicies)}, pageKeys)
	return adminapi.PageUsed{About: "Units on this node in the last five to ten minutes, denied or not.", Keys: keys}
}

// toSecond returns the nearest second, so that an instant that is worked out again stays the same.
func toSecond(at time.Time) time.Time { return at.UTC().Round(time.Second) }

// pageBans lists the banned of all nodes.
func (a *App) pageBans(stores *storepool.Stores) adminapi.PageBans {
	list, complete, err := a.banned(context.Background(), stores, "") // has a budget of its own
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
