package gate

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

const (
	// freshLooks is how many times in a row a client's quotas are read anew. After that they are read once in
	// freshPace; requests in between get the last answer.
	freshLooks = 10
	freshPace  = 100 * time.Millisecond

	// maxUsageClients is how many clients' answers a handler keeps. The quotas of further clients are read anew.
	maxUsageClients = 4096
)

// usageCache keeps the last quotas of clients that ask for them. A client that asks too often gets the last answer, so
// that asking costs no more than any request. A usageCache is safe for concurrent use.
type usageCache struct {
	seed maphash.Seed
	now  func() time.Time

	mu        sync.Mutex
	clients   map[uint64]*usageClient
	forgotten time.Time // when clients were last forgotten
}

func newUsageCache() *usageCache {
	return &usageCache{seed: maphash.MakeSeed(), now: time.Now, clients: map[uint64]*usageClient{}}
}

// usageClient is a client that has asked lately.
type usageClient struct {
	paidUntil time.Time // one freshPace for each time that the quotas were read, but not before now
	answer    *usage
}

// usage is quotas as they stood at an instant.
type usage struct {
	asked  []limiter.Check // the checks before the quotas were read
	checks []limiter.Check
	source limiter.Source
	at     time.Time
}

// copy returns a copy for another request, which may change its checks.
func (a *usage) copy() *usage {
	own := *a
	own.checks = slices.Clone(a.checks)
	return &own
}

// get returns the quotas of checks: the quotas that peek reads, or the last ones if the client asks too often. Errors are not
// kept.
func (u *usageCache) get(checks []limiter.Check, peek func([]limiter.Check) (limiter.Source, error)) (*usage, error) {
	hash := u.hash(checks)
	if repeated := u.repeat(hash, checks); repeated != nil {
		return repeated.copy(), nil
	}
	answer := &usage{asked: slices.Clone(checks), checks: slices.Clone(checks), at: u.now()}
	var err error
	if answer.source, err = peek(answer.checks); err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if client := u.clients[hash]; client != nil && (client.answer == nil || !client.answer.at.After(answer.at)) {
		client.answer = answer.copy()
	}
	return answer, nil
}

// repeat returns the last answer where the client has looked too often, and counts a look otherwise.
func (u *usageCache) repeat(hash uint64, checks []limiter.Check) *usage {
	now := u.now()
	u.mu.Lock()
	defer u.mu.Unlock()
	client := u.clients[hash]
	if client == nil {
		if len(u.clients) >= maxUsageClients && !u.forget(now) {
			return nil
		}
		client = new(usageClient)
		u.clients[hash] = client
	}
	if client.paidUntil.Before(now) {
		client.paidUntil = now
	}
	if client.paidUntil.Sub(now) > (freshLooks-1)*freshPace && client.answer != nil && sameQuotas(client.answer.asked, checks) {
		return client.answer
	}
	client.paidUntil = client.paidUntil.Add(freshPace)
	if latest := now.Add(freshLooks * freshPace); client.paidUntil.After(latest) {
		client.paidUntil = latest
	}
	return nil
}

// forget drops the clients that have not looked lately, now and then, and reports whether there were any. The
// lock is held.
func (u *usageCache) forget(now time.Time) bool {
	if now.Sub(u.forgotten) < freshPace {
		return false
	}
	u.forgotten = now
	before := len(u.clients)
	for hash, client := range u.clients {
		if client.paidUntil.Before(now) {
			delete(u.clients, hash)
		}
	}
	return len(u.clients) < before
}

// hash tells the quotas of checks apart.
func (u *usageCache) hash(checks []limiter.Check) uint64 {
	var hash maphash.Hash
	hash.SetSeed(u.seed)
	for i := range checks {
		_, _ = hash.WriteString(checks[i].Policy.ID)
		_ = hash.WriteByte(0)
		_, _ = hash.WriteString(checks[i].Key.String())
		_ = hash.WriteByte(0)
	}
	return hash.Sum64()
}

// sameQuotas reports whether two questions are the same: quotas, limits, weights, and which are blocked.
func sameQuotas(asked, again []limiter.Check) bool {
	return slices.EqualFunc(asked, again, func(a, b limiter.Check) bool {
		return a.Key == b.Key && a.Policy == b.Policy && a.Weight == b.Weight && a.Result.Passes() == b.Result.Passes()
	})
}
