package redisratelimit

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/escape"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/explain"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// serveBans lists the clients that are banned on any node, of one policy or of all.
func (a *App) serveBans(r *http.Request) (any, bool, error) {
	query := r.URL.Query()
	name := query.Get("policy")
	if query.Has("policy") {
		if _, err := a.registeredNamed(name); err != nil {
			return nil, false, err
		}
	}
	stores := a.use()
	defer stores.End()
	list, complete, err := stores.Banned(r.Context(), name)
	report := adminapi.BansReport{Complete: complete, Bans: []adminapi.BanEntry{}}
	if err != nil {
		report.Error = adminapi.UnavailableText(err)
	}
	for _, b := range list {
		report.Bans = append(report.Bans, adminapi.BanEntry{Policy: b.Policy, Key: escape.Key(b.Key.String()), Banned: explain.Seconds(b.Left), Offenses: b.Offenses})
	}
	return report, err != nil, nil
}

// banReport describes whom a policy bans; nil for none.
func banReport(s limiter.Settings) *adminapi.BanReport {
	if len(s.Ban) == 0 {
		return nil
	}
	report := &adminapi.BanReport{After: max(1, s.BanAfter)}
	for _, d := range s.Ban {
		report.Durations = append(report.Durations, explain.Seconds(d))
	}
	return report
}

// maxBanPeeks is how many keys are peeked at at a time.
const maxBanPeeks = 64

// addBans adds which of the keys are banned: by the store, or, once it does not answer, as far as this
// process remembers.
func (a *App) addBans(r *http.Request, keys []adminapi.TopEntry) {
	stores := a.use()
	defer stores.End()
	var peeking sync.WaitGroup
	var failed atomic.Bool
	slots := make(chan struct{}, maxBanPeeks)
	for i := range keys {
		policy := a.registered[keys[i].Policy].policy
		parsed, err := escape.ParseKey(keys[i].Key)
		if policy == nil || !policy.Bans() || err != nil {
			continue
		}
		slots <- struct{}{}
		peeking.Go(func() {
			defer func() { <-slots }()
			check := limiter.Check{Policy: policy, Key: limiter.AsEncoded(parsed)}
			if failed.Load() {
				stores.PeekLocal(&check)
			} else if _, err := stores.Peek(r.Context(), &check); err != nil {
				failed.Store(true)
			}
			keys[i].Banned = explain.Seconds(check.Result.BanLeft)
		})
	}
	peeking.Wait()
}

// unban lifts the ban of a key, or with nil those of all keys of a policy, and returns how many there were.
func (a *App) unban(ctx context.Context, registered registeredPolicy, key *limiter.EncodedKey) (*int64, error) {
	stores := a.use()
	defer stores.End()
	p, lifted := registered.policy, int64(0)
	switch {
	case !p.Bans():
		return nil, adminapi.BadInput("unban: policy %q has no option ban; 'remove' ends an override, 'reset' deletes a count", p.Name())
	case key == nil:
		var err error
		lifted, err = stores.UnbanAll(ctx, p.Name()) // has a budget of its own
		return &lifted, err
	}
	banned, err := stores.Unban(ctx, p, *key)
	if banned {
		lifted = 1
	}
	return &lifted, err
}
