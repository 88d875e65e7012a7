package storepool

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/credentials"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/challenge"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/failover"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
)

// memoryKey is the pool's key of the one in-process store.
const memoryKey = "memory"

// memoryStore is the in-process store of this process, with a failover that has no other.
type memoryStore struct {
	Store     *memory.Store
	Names     *nameTable
	Announced atomic.Bool // that the limits live here

	shared sharedStores
}

// Destruct ends what was kept for policies. No configuration uses it any more.
func (s *memoryStore) Destruct() error {
	s.Names.end()
	return nil
}

// acquire returns what a pool has by a key, and makes it if there is none.
func acquire[T caddy.Destructor](p *Pool, key string, build caddy.Constructor) (value T, err error) {
	held, _, err := p.LoadOrNew(key, build)
	if err != nil {
		return value, err
	}
	value, ok := held.(T)
	if !ok {
		return value, fmt.Errorf("the store is a %T", held)
	}
	return value, nil
}

// acquireMemory returns the in-process store.
func (p *Pool) acquireMemory() (*memoryStore, error) {
	return acquire[*memoryStore](p, memoryKey, func() (caddy.Destructor, error) {
		store := memory.New()
		alone := failover.New(nil, store, failover.Behavior{AwaitsRefunds: true})
		names := newNameTable(store.Prune, time.Now)
		if p.Gauges != nil {
			names.Gauges = func() Gauges { return p.Gauges(names) }
		}
		queue := failover.NewQueue(alone, p.waiting())
		hooks := overrides.Hooks{OnChange: func(policy string, _ ...limiter.EncodedKey) { queue.Reconsider(policy) }}
		return &memoryStore{
			Store: store, Names: names,
			shared: sharedStores{alone, queue, overrides.NewLocal(hooks), challenge.NewLocal()},
		}, nil
	})
}

// Options is all that makes two shared stores the same. Its values are resolved and final.
type Options struct {
	Client dial.Connection
	TLS    string // the files and names that Client.TLS is made of
	Naming limiter.KeyFormat

	DenyAge        time.Duration
	LocalShare     float64
	ForgiveOutages bool
}

// poolKey tells options apart without holding them: a digest, passwords included.
func (o Options) poolKey() string {
	sources := [2]string{identity(o.Client.Credentials), identity(o.Client.SentinelCredentials)}
	o.Client.TLS, o.Client.LoadTLS, o.Client.Credentials, o.Client.SentinelCredentials = nil, nil, nil, nil
	sum := sha256.Sum256(fmt.Appendf(nil, "%#v %q", o, sources))
	return "redis:" + hex.EncodeToString(sum[:])
}

// identity tells sources of logins apart, which are other values after each reload.
func identity(p credentials.Provider) string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("%T %s", p, p.Identity())
}

// Redis is a store on one Redis, behind a failover.
type Redis struct {
	Store        *redis.Store
	LoginFailing *atomic.Bool // open connections cannot log in again

	// Survey asks other nodes what their keys have used, and what their policies have met lately.
	Survey *Survey

	key     string
	shared  sharedStores
	outages *outageReporter
}

// FailingSince returns when this process noticed that Redis does not decide; zero: nothing is known of that.
func (s *Redis) FailingSince() time.Time { return s.outages.failingSince() }

// DecidingSince returns from when on Redis has decided without an outage that this process noticed; zero: it fails, or has
// not answered yet.
func (s *Redis) DecidingSince() time.Time { return s.outages.decidingSince() }

// Destruct ends the polls, gives leases back and closes the client when no configuration uses it any more.
func (s *Redis) Destruct() error {
	s.shared.Overrides.Close()
	s.shared.Challenges.Close()
	s.shared.EndLeases()
	defer s.outages.close()
	return s.Store.Close()
}

// newestAt returns the stores of the running configuration, if they have the same keys of the same Redis as stores of
// options, which may be nil; otherwise nil.
func (p *Pool) newestAt(o *Options) *Stores {
	newest := p.Newest()
	if o == nil || newest == nil || newest.Options == nil {
		return nil
	}
	a, b := o.Client, newest.Options.Client
	sameServers := a.Mode == b.Mode && a.Master == b.Master && slices.Equal(a.Addresses, b.Addresses)
	if sameServers && a.DB == b.DB && o.Naming == newest.Options.Naming {
		return newest
	}
	return nil
}

// acquireRedis returns the store of options.
func (p *Pool) acquireRedis(o Options, memory *memoryStore) (*Redis, error) {
	key := o.poolKey()
	return acquire[*Redis](p, key, func() (caddy.Destructor, error) {
		outages := &outageReporter{metrics: p.Metrics, warnings: &p.Warnings, newest: p.Newest}
		o.Client.OnLogin = outages.loggedIn
		client, err := dial.New(o.Client)
		if err != nil {
			return nil, err
		}
		store := redis.New(client, outages.watch(o))
		behind := failover.New(store, memory.Store, failover.Behavior{
			DenyAge: o.DenyAge, LocalFraction: o.LocalShare,
			ForgiveOutages: o.ForgiveOutages, AwaitsRefunds: true,
			OnRepaid: memory.Names.countOutage, OnLeaseEnd: memory.Names.countLeased,
			OnAsk: traceStore(o.Client), OnUndecided: outages.undecided,
		})
		queue := failover.NewQueue(behind, p.waiting())
		var earlier sharedStores // whose overrides and secret apply in the first moments too
		if newest := p.newestAt(&o); newest != nil {
			earlier = newest.sharedStores
		}
		inRedis := func(key string) []byte { return store.AppendClient(nil, limiter.AsEncoded(key)) }
		asked := NewSurvey(store, o.Naming, p.process, func(subject string) []byte {
			if subject == LatelyOfAll {
				return encodeLately(memory.Names.Lately())
			}
			return encodeUsage(memory.Names.Usage(subject), inRedis)
		})
		hooks := outages.watchOverrides(o)
		hooks.OnChange = func(policy string, keys ...limiter.EncodedKey) {
			if policy != "" { // a block for all policies goes before them
				behind.ForgetDenials(policy, keys...)
			}
			queue.Reconsider(policy)
		}
		hooks.OnVersion = asked.Look
		live := overrides.NewShared(store, o.Naming, earlier.Overrides, hooks)
		keeper := challenge.NewShared(store, o.Naming, earlier.Challenges, outages.secretUnread)
		return &Redis{
			key: key, Store: store, LoginFailing: &outages.loginFailing, outages: outages, Survey: asked,
			shared: sharedStores{behind, queue, live, keeper},
		}, nil
	})
}
