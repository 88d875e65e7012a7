package redisratelimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminserver"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/failover"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/options"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/secretfile"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

func init() {
	caddy.RegisterModule(App{})
}

// App holds what all redis_ratelimit handlers of a configuration share. Without it, or without
// `redis` in it, the limits live in this process.
type App struct {
	// The Redis that shares the counts. Default: none, counts are kept in this process.
	Redis *Redis `json:"redis,omitempty"`

	// How long a request waits for Redis, up to 24h. Connecting has its own budget of 5 seconds, in
	// the background. Default: 100ms.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	// What handlers do when Redis cannot decide, unless they say otherwise: `local`, `open` or
	// `closed`. Default: `local`.
	FailMode limiter.FailMode `json:"fail_mode,omitempty"`

	// Begins the name of every Redis key: letters, digits and `:_.-`. Default: `rl`.
	KeyPrefix *string `json:"key_prefix,omitempty"`

	// A secret by which clients' keys appear in Redis as HMAC-SHA256 only. Placeholders are
	// resolved when the configuration is loaded. Default: none, clients' keys are readable.
	HashKeys string `json:"hash_keys,omitempty"`

	// How long a client that Redis denied is refused without asking again; never longer than Redis
	// would refuse it. From 0, which asks always, to 1s. Default: 1s.
	DenyCache *caddy.Duration `json:"deny_cache,omitempty"`

	// Bounds what this process keeps of clients and holds of their requests. Default: 1,000,000 keys, and 128 MiB of
	// bodies.
	Memory *Memory `json:"memory,omitempty"`

	// The percentage of each limit that this node enforces while `fail_mode` `local` is active, above 0, up to
	// 100, with at most four decimals: 25 on each of four nodes keeps the limit as a whole. Default: 100.
	LocalShare *float64 `json:"local_share,omitempty"`

	// Whether requests that nodes admitted under `fail_mode` `local` while Redis did not decide are
	// charged when it decides again, raising a quota at most to its capacity. Default: true.
	SettleOutage *bool `json:"settle_outage,omitempty"`

	// Tells a receiver by HTTP what happens: thresholds, bans, outages, lost data, policies that meet no request. Default: none.
	Webhook *Webhook `json:"webhook,omitempty"`

	// Which crawlers there are, and how a request that claims to come from one is known to. Default: none.
	Crawlers *Crawlers `json:"crawlers,omitempty"`

	ctx        caddy.Context
	opened     *storepool.Stores // used by App.use
	registered options.Registry
	rules      []*rule.Set         // of its handlers
	admin      *adminserver.Server // nil: the app was not started
	overrides  *overrides.Live
	elsewhere  options.PlaceholderNames // of other handlers
	webhook    *runningWebhook          // nil: none
	crawlers   *runningCrawlers         // nil: none
	neverMet   *clock.Task              // looks for policies that no request has come to
	released   bool                     // the stores
	stopped    bool                     // guarded by the lock of apps
	served     *caddyhttp.App           // whose servers the app follows
	logger     *zap.Logger

	trees          *routetrace.Trees // of the servers that its handlers stand in
	missingAddress *sync.Once        // warns of requests without a client's address
	unbelieved     *sync.Once        // warns of clients' addresses that are not believed
	writable       *sync.Once        // warns of clients' addresses that clients may write
	hidden         *sync.Once        // tells of clients that all have one private address
}

// Memory bounds the in-process store, and the bodies that this process holds.
type Memory struct {
	// How many keys are kept: clients times policies, those seen on Redis included. Beyond it, new
	// clients use a fixed number of places together, and may get too little, never too much.
	// At most 2,147,483,647. Default: 1,000,000.
	MaxKeys int64 `json:"max_keys,omitempty"`

	// How many bytes of request bodies this process holds at once, from when a handler has read them for the values in
	// them until those behind it have read or closed them; one client's address at most an eighth. Requests beyond it are
	// answered with 503. From 1 MiB to 1 TiB. Default: 134,217,728 (128 MiB).
	MaxBodies int64 `json:"max_bodies,omitempty"`
}

const (
	defaultKeyPrefix = limiter.DefaultKeyPrefix

	minTimeout = 100 * time.Microsecond
	maxTimeout = 24 * time.Hour
	maxMaxKeys = math.MaxInt32

	minMaxBodies = 1 << 20
	maxMaxBodies = 1 << 40
)

// What would be right, in errors.
const (
	timeoutBounds    = "a duration from 100us to 24h, such as 100ms"
	denyCacheBounds  = "off, or a duration of at most 1s"
	maxBodiesBounds  = "a size from 1MiB to 1TiB, such as 128MiB"
	localShareBounds = "a percentage above 0%, up to 100%, with at most four decimals, such as 50% on each of two nodes; " +
		"to admit " +
		"nothing in an outage use fail_mode closed"
)

var keyPrefixPattern = regexp.MustCompile(`^[A-Za-z0-9:_.-]*$`)

// CaddyModule returns the Caddy module information.
func (App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: options.AppName, New: func() caddy.Module { return new(App) }}
}

// UnmarshalJSON refuses unknown fields, as Caddy does. Its error quotes no value that may hold a secret.
func (a *App) UnmarshalJSON(text []byte) error {
	type fields App
	err := options.DecodeJSON(text, (*fields)(a))
	if err != nil && secretfile.Redact(err.Error()) == secretfile.Redacted {
		return errors.New("a field is unknown, or timeout or deny_cache is no duration: " + secretfile.Redacted)
	}
	return err
}

// Provision acquires the stores, which outlive configurations. It does not connect.
func (a *App) Provision(ctx caddy.Context) error {
	a.ctx, a.logger, a.trees = ctx, ctx.Logger(), new(routetrace.Trees)
	a.missingAddress, a.unbelieved, a.writable, a.hidden = new(sync.Once), new(sync.Once), new(sync.Once), new(sync.Once)
	a.registered, a.rules, a.elsewhere = options.Registry{}, nil, options.PlaceholderNames{}
	if err := registerMetrics(ctx.GetMetricsRegistry()); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	a.setDefaults()
	var ofRedis *storepool.Options // none: the counts live in this process
	if a.Redis == nil {
		if _, err := options.ResolveText("hash_keys", a.HashKeys); err != nil {
			return err
		}
	} else {
		resolved, err := a.resolve(ctx)
		if err != nil {
			return fmt.Errorf("redis: %w", err)
		}
		ofRedis = &resolved
	}
	opened, err := pool.Open(ofRedis)
	if err != nil {
		return options.NameFields(err)
	}
	a.opened, a.overrides = opened, opened.Overrides
	if a.webhook, err = a.Webhook.open(processLogger); err != nil {
		return err
	}
	a.crawlers, err = a.Crawlers.open(ctx, processLogger, pool.Warnings.Watch(a.logger))
	return err
}

// resolve makes the final options of what is configured: placeholders replaced, files read.
func (a *App) resolve(ctx caddy.Context) (storepool.Options, error) {
	client, err := a.Redis.clientOptions(ctx)
	if err != nil {
		return storepool.Options{}, err
	}
	client.Timeout = time.Duration(a.Timeout)
	secret, err := options.ResolveText("hash_keys", a.HashKeys)
	if err != nil {
		return storepool.Options{}, err
	}
	options := storepool.Options{
		Client:  client,
		Naming:  limiter.KeyFormat{Prefix: *a.KeyPrefix, Secret: secret},
		DenyAge: time.Duration(*a.DenyCache), LocalShare: math.Round(*a.LocalShare*1e4) / 1e6, ForgiveOutages: !*a.SettleOutage,
	}
	if a.Redis.TLS != nil {
		files, err := a.Redis.TLS.resolve()
		if err == nil {
			options.Client.TLS, err = files.Load()
		}
		if err != nil {
			return storepool.Options{}, fmt.Errorf("tls: %w", err)
		}
		options.Client.LoadTLS, options.TLS = files.Load, fmt.Sprintf("%q", files)
	} else if client.TLS != nil {
		options.TLS = "system"
	}
	return options, nil
}

func (a *App) setDefaults() {
	a.Timeout = cmp.Or(a.Timeout, caddy.Duration(dial.DefaultTimeout))
	a.FailMode = cmp.Or(a.FailMode, limiter.FailLocal)
	a.KeyPrefix = cmp.Or(a.KeyPrefix, new(defaultKeyPrefix))
	a.LocalShare = cmp.Or(a.LocalShare, new(100.0))
	a.SettleOutage = cmp.Or(a.SettleOutage, new(true))
	a.DenyCache = cmp.Or(a.DenyCache, new(caddy.Duration(failover.MaxDenyAge)))
}

// Validate refuses values that no configuration can work with. Defaults must be set.
func (a *App) Validate() error {
	share, err := rule.ParseFraction(*a.LocalShare)
	switch {
	case time.Duration(a.Timeout) < minTimeout || time.Duration(a.Timeout) > maxTimeout:
		return fmt.Errorf("timeout %v: use %s", time.Duration(a.Timeout), timeoutBounds)
	case !slices.Contains(limiter.FailModes(), a.FailMode):
		return fmt.Errorf("fail_mode %q: use local, open or closed", secretfile.Redact(a.FailMode))
	case *a.DenyCache < 0 || time.Duration(*a.DenyCache) > failover.MaxDenyAge:
		return fmt.Errorf("deny_cache %v: use %s", time.Duration(*a.DenyCache), denyCacheBounds)
	case err != nil || share == 0:
		return fmt.Errorf("local_share %v%%: use %s", *a.LocalShare, localShareBounds)
	case !keyPrefixPattern.MatchString(*a.KeyPrefix):
		return fmt.Errorf("key_prefix %q: use letters, digits and the characters ':', '_', '.' and '-'", secretfile.Redact(*a.KeyPrefix))
	case a.Memory != nil:
		if err := a.Memory.check(); err != nil {
			return err
		}
	}
	if err := a.Crawlers.check(); err != nil {
		return err
	}
	return a.Webhook.check()
}

// check refuses bounds out of their own bounds. 0 is the default.
func (m *Memory) check() error {
	switch {
	case m.MaxKeys < 0 || m.MaxKeys > maxMaxKeys:
		return fmt.Errorf("max_keys %d: use a whole number from 1 to %d", m.MaxKeys, maxMaxKeys)
	case m.MaxBodies != 0 && (m.MaxBodies < minMaxBodies || m.MaxBodies > maxMaxBodies):
		return fmt.Errorf("max_bodies %d: use bytes from %d, which is %s, to %d, %s", m.MaxBodies,
			minMaxBodies, rule.FormatSize(minMaxBodies), int64(maxMaxBodies), rule.FormatSize(maxMaxBodies))
	}
	return nil
}

// Start says where the counts live, and connects in the background, so that the first request
// finds a connection. It begins to read the overrides.
func (a *App) Start() error {
	a.admin = &adminserver.Server{
		Process: admin, Stores: a.opened, Policies: a.registered, Rules: a.rules, Crawlers: a.crawlers.forAdmin(),
		FailMode: a.FailMode, Timeout: time.Duration(a.Timeout), MaxKeys: a.maxKeys(),
		Routes: a.routes, Describe: a.describedPolicies,
	}
	apps.add(a)
	a.logWarnings()
	a.startWebhook()
	a.crawlers.start()
	if a.opened.Options == nil {
		if a.opened.Memory.Announced.CompareAndSwap(false, true) {
			a.logger.Info("no redis is configured: the limits live in this process and are not shared")
		}
		return nil
	}
	a.overrides.Start()
	if slices.ContainsFunc(a.rules, (*rule.Set).Challenges) {
		a.opened.Challenges.Start()
	}
	stores := a.use()
	go func(logger *zap.Logger) {
		defer stores.End()
		ctx, cancel := context.WithTimeout(context.Background(), dial.ConnectBudget)
		defer cancel()
		if err := dial.Ping(ctx, stores.Redis.Store.Client()); err != nil {
			logger.Debug("redis does not answer yet", zap.Error(err))
		}
	}(a.logger)
	return nil
}

const (
	// neverMetAfter is how long a policy must have met no request to be told of.
	neverMetAfter = 24 * time.Hour

	// neverMetInterval is the time between two looks at the policies. The first look of a configuration comes after
	// neverMetDelay, since another configuration may be loaded every minute; one that fails to start is gone by then.
	neverMetInterval, neverMetDelay = 10 * time.Minute, 5 * time.Second
)

// startWebhook begins to tell.
func (a *App) startWebhook() {
	if a.webhook == nil {
		return
	}
	a.webhook.Resume()
	if a.webhook.tells(tellNeverMet) {
		looks := &clock.Task{Life: a.ctx} // a look that is under way as that ends is the last one
		looks.Run = func() {
			if a.tellNeverMet(time.Now()) {
				looks.Start(neverMetInterval)
			}
		}
		looks.Start(neverMetDelay)
		a.neverMet = looks
	}
}

// endWebhook ends what the configuration tells.
func (a *App) endWebhook() {
	if a.neverMet != nil {
		a.neverMet.Stop()
	}
	a.webhook.close()
}

// tellNeverMet tells of policies that no request has come to in a day, each once, and reports whether there may be others
// later.
func (a *App) tellNeverMet(now time.Time) (mayBeLater bool) {
	for name, registered := range a.registered {
		if registered.Counters == nil {
			continue
		}
		since, due, later := registered.Counters.TakeNeverMet(now, neverMetAfter)
		if mayBeLater = mayBeLater || later; due {
			a.webhook.tell(tellNeverMet, messageNeverMet, map[string]any{"policy": name, "since": since.UTC().Format(time.RFC3339)})
		}
	}
	return mayBeLater
}

// routes are those of the running configuration's servers, by their names.
func (a *App) routes() map[string]*routetrace.Tree {
	module, _ := a.ctx.AppIfConfigured("http") // nil where there is none
	if app, ok := module.(*caddyhttp.App); ok {
		return a.trees.Of(app.Servers)
	}
	return nil
}

// use returns the stores, which stay open until their end.
func (a *App) use() *storepool.Stores { return a.opened.Use() }

// processLogger returns a logger for what outlives configurations.
func processLogger() *zap.Logger { return pool.Warnings.Watch(caddy.Log().Named(options.AppName)) }

// followServers has waits end before the servers that a module stands in do, as the process ends.
func (a *App) followServers(modules []caddy.Module) {
	for _, module := range modules {
		served, ok := module.(*caddyhttp.App)
		if !ok || served == a.served {
			continue
		}
		a.served = served
		for _, server := range served.Servers {
			server.RegisterOnShutdown(func() { pool.ServersStop(time.Duration(served.GracePeriod)) })
		}
	}
}

// boundMemory sets the bounds of the in-process store and of the bodies, which all configurations use.
func (a *App) boundMemory() {
	bodies.SetLimit(a.maxBodies())
	a.opened.Memory.Store.Limit(a.maxKeys(), func() {
		processLogger().Warn("more clients than max_keys: new ones share places and may be limited too early, "+
			"or begin an "+
			"outage of Redis with whole quotas",
			zap.Int64("max_keys", a.maxKeys()))
	})
}

func (a *App) maxKeys() int64 {
	if a.Memory == nil || a.Memory.MaxKeys == 0 {
		return memory.DefaultMaxKeys
	}
	return a.Memory.MaxKeys
}

func (a *App) maxBodies() int64 {
	if a.Memory == nil || a.Memory.MaxBodies == 0 {
		return defaultMaxBodies
	}
	return a.Memory.MaxBodies
}

// Stop has requests that wait be decided by the configuration that goes on. Requests may still come, and the stores work until
// Cleanup.
func (a *App) Stop() error {
	apps.stop(a)
	pool.Reconsider()
	return nil
}

// Cleanup releases the stores. It runs after a Provision that failed too, and releases only what
// this app acquired. The app keeps its references, for questions that are being answered.
func (a *App) Cleanup() error {
	apps.remove(a)
	pool.Reconsider()
	if a.released || a.opened == nil {
		return nil
	}
	a.released = true
	if a.wasValidated() {
		a.logWarnings()
	}
	a.endWebhook()
	a.crawlers.close()
	a.opened.Prune()
	a.opened.Memory.Names.Release(a.registered.Counters())
	return a.opened.EndConfiguration()
}

// policy returns the policy of that name in this configuration. If it is made anew, the rules of earlier handlers decide
// by it too. The handler that asks has one rule of it then, see checkRepeated.
func (a *App) policy(s limiter.Settings, id options.Identity) (options.Registered, error) {
	before := a.registered[s.Name].Policy
	registered, err := a.registered.Register(s, id, "")
	if err == nil && before != nil && before != registered.Policy {
		for _, rules := range a.rules {
			rules.Replace(registered.Variants)
		}
	}
	if err == nil && registered.Counters == nil {
		registered.Counters = a.opened.Memory.Names.Use(s.Name)
		registered.CountIf, registered.Once = new(storepool.CountIfWatch), new(options.PolicyOnce)
		if len(s.Ban) > 0 {
			registered.Counters.CountBans()
		}
		if registered.Policy.CountsRunning {
			registered.Counters.CountRunning()
		}
		if s.Waits {
			registered.Counters.HaveWait()
		}
		a.registered[s.Name] = registered
	}
	return registered, err
}

// Interface guards
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.Validator    = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)
