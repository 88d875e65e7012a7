package redisratelimit

import (
	"encoding/json"
	"errors"
	"math"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/options"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/secretfile"
)

func init() {
	options.AddBlocks(appBlocks...)
	httpcaddyfile.RegisterGlobalOption(options.AppName, parseGlobalOption)
	httpcaddyfile.RegisterDirective(options.AppName, parseDirective)
	httpcaddyfile.RegisterDirectiveOrder(options.AppName, httpcaddyfile.Before, "basic_auth")
}

// parseDirective reads the directive and its matcher.
func parseDirective(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
	h.Next()
	ahead := *h.Dispenser
	ahead.NextArg()
	first := ahead.Val() // before Caddy takes the matcher out
	set, err := h.ExtractMatcherSet()
	if err != nil {
		return nil, h.WrapErr(err)
	}
	matcher := options.Matcher{Set: set}
	if set != nil {
		matcher.Token = first
	}
	maxBodies, err := maxBodiesOf(h.Option(options.AppName))
	if err != nil {
		return nil, err
	}
	directive, err := options.ParseDirective(h, matcher, options.RestOfCaddyfile{
		MaxBodies: maxBodies, Begins: noticed.beginParsing, Warn: func(w routetrace.Warning) { noticed.logParsed(processLogger(), w) },
	})
	if err != nil {
		return nil, err
	}
	return h.NewRoute(set, &Handler{Directive: *directive}), nil
}

// maxBodiesOf returns the bound of all bodies by a Caddyfile's global option, which may be nil.
func maxBodiesOf(option any) (int64, error) {
	app := new(App)
	if global, ok := option.(httpcaddyfile.App); ok {
		if err := json.Unmarshal(global.Value, app); err != nil {
			return 0, err
		}
	}
	return app.maxBodies(), nil
}

// parseGlobalOption reads the global option:
//
//	redis_ratelimit {
//		redis <url>
//		redis {
//			address              <host:port or socket>...
//			mode                 standalone|sentinel|cluster
//			master               <name>
//			username             <name>
//			password             <secret>
//			credentials          file <path>
//			sentinel_username    <name>
//			sentinel_password    <secret>
//			sentinel_credentials file <path>
//			db                   <n>
//			pool_size            <n>
//			tls
//			tls {
//				ca          <file>
//				cert        <file>
//				key         <file>
//				server_name <name>
//				pin         <sha256>...
//			}
//		}
//		timeout       <duration>
//		fail_mode     local|open|closed
//		key_prefix    <prefix>
//		hash_keys     <secret>
//		deny_cache    off|<duration>
//		local_share   <percentage>
//		settle_outage on|off
//		memory {
//			max_keys   <n>
//			max_bodies <size>
//		}
//		webhook <url> {
//			secret <secret>
//			events <event>...
//		}
//		crawlers [<crawler>...] {
//			<crawler>
//			<crawler> {
//				agent  <word>...
//				names  <suffix>...
//				ranges <file>...
//			}
//			resolver <resolver>
//			wait     off|<duration>
//		}
//	}
//
// Only one form of redis and of tls may stand.
func parseGlobalOption(d *caddyfile.Dispenser, existing any) (any, error) {
	d.Next()
	if existing != nil {
		return nil, d.Errf("the global option %s is given twice; make one of them", options.AppName)
	}
	app, err := parseApp(d)
	if err != nil {
		return nil, options.NameEmpty(d, err)
	}
	return httpcaddyfile.App{Name: options.AppName, Value: caddyconfig.JSON(app, nil)}, nil
}

func parseApp(d *caddyfile.Dispenser) (*App, error) {
	if d.NextArg() {
		return nil, d.Errf("the global option %s takes no arguments, only a block", options.AppName)
	}
	app := new(App)
	at, err := options.KnownBlocks.Each(d, appOptions, func(option string) error { return parseAppOption(d, app, option) })
	if err != nil {
		return nil, err
	}
	whole := *app
	whole.setDefaults()
	if err := whole.Validate(); err != nil {
		return nil, at.Wrap(err)
	}
	return app, nil
}

// The words of the blocks.
var (
	appOptions = []string{"redis", "timeout", "fail_mode", "key_prefix", "hash_keys", "deny_cache", "memory", "local_share",
		"settle_outage", "webhook", "crawlers"}
	redisBlockOptions = []string{"address", "mode", "master", "username", "password", "credentials", "sentinel_username",
		"sentinel_password", "sentinel_credentials", "db", "tls", "pool_size"}
	memoryOptions  = []string{"max_keys", "max_bodies"}
	webhookOptions = []string{"secret", "events"}
	tlsOptions     = []string{"ca", "cert", "key", "server_name", "pin"}

	appBlocks = options.Blocks{
		{Place: "the global option redis_ratelimit { ... }", Options: appOptions, Shown: []string{"timeout", "fail_mode"}},
		{Place: "the block redis { ... } of the global option", Options: redisBlockOptions},
		{Place: "the block memory { ... } of the global option", Options: memoryOptions, Shown: memoryOptions[1:]},
		{Place: "the block webhook <url> { ... } of the global option", Options: webhookOptions[:1]}, // events is also others' word for a limit
		{Place: "the block tls { ... } of redis", Options: tlsOptions},
		{Place: "the block crawlers { ... } of the global option", Options: allCrawlersOptions[:1]}, // wait is also a policy's
		crawlerBlocks[0],
	}
)

func parseAppOption(d *caddyfile.Dispenser, app *App, option string) (err error) {
	switch option {
	case "redis":
		return parseRedis(d, app)
	case "memory":
		return parseMemory(d, app)
	case "webhook":
		return parseWebhook(d, app)
	case "crawlers":
		app.Crawlers, err = parseCrawlers(d)
		return err
	case "key_prefix":
		prefix, err := options.Text(d)
		app.KeyPrefix = &prefix
		return err
	}
	value, err := options.Value(d)
	if err != nil {
		return err
	}
	switch option {
	case "timeout":
		app.Timeout, err = options.Duration(d, option, value, minTimeout, timeoutBounds)
	case "fail_mode":
		app.FailMode = limiter.FailMode(value)
	case "hash_keys":
		app.HashKeys = value
	case "local_share":
		app.LocalShare, err = options.Percent(d, option, value)
	case "settle_outage":
		app.SettleOutage, err = options.Switch(d, option, value)
	case "deny_cache":
		app.DenyCache = new(caddy.Duration)
		if value != "off" {
			*app.DenyCache, err = options.Duration(d, option, value, 1, denyCacheBounds)
		}
	}
	return err
}

// parseMemory reads the bounds of the in-process store and of the bodies.
func parseMemory(d *caddyfile.Dispenser, app *App) error {
	if d.NextArg() {
		return d.Err("memory takes a block with max_keys <n> and max_bodies <size>, or one of these")
	}
	app.Memory = new(Memory)
	_, err := options.KnownBlocks.Each(d, memoryOptions, func(option string) error {
		value, err := options.Value(d)
		if err != nil {
			return err
		}
		if option == "max_bodies" {
			app.Memory.MaxBodies, err = options.SizeWithin(d, option, value, minMaxBodies, maxMaxBodies, maxBodiesBounds)
			return err
		}
		n, err := options.Number(d, option, value, 1, maxMaxKeys)
		app.Memory.MaxKeys = int64(n)
		return err
	})
	return err
}

// parseWebhook reads who is told what happens.
func parseWebhook(d *caddyfile.Dispenser, app *App) error {
	w := new(Webhook)
	app.Webhook = w
	args := d.RemainingArgs()
	if len(args) != 1 {
		return d.Errf("webhook takes one URL such as https://alerts.example.com/ratelimit and a block with secret; got %d values", len(args))
	}
	w.URL = args[0]
	at, err := options.KnownBlocks.Each(d, webhookOptions, func(option string) (err error) {
		if option == "secret" {
			w.Secret, err = options.Value(d)
			return err
		}
		if w.Events = d.RemainingArgs(); len(w.Events) == 0 {
			return d.Errf("events takes at least one of %s; or leave it out for all", joinEvents())
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := w.check(); err != nil {
		return at.Wrap(err)
	}
	return nil
}

// parseRedis reads either form of redis.
func parseRedis(d *caddyfile.Dispenser, app *App) error {
	r := new(Redis)
	app.Redis = r
	args := d.RemainingArgs()
	if len(args) > 1 {
		return d.Errf("redis takes one URL, or a block; got %d values", len(args))
	}
	if len(args) == 1 {
		r.URL = args[0]
	}
	block := false
	at, err := options.KnownBlocks.Each(d, redisBlockOptions, func(option string) error {
		block = true
		return parseRedisOption(d, r, option)
	})
	switch {
	case err != nil:
		return err
	case block && r.URL != "":
		return at.Wrap(errors.New("redis takes a URL or a block, not both"))
	case !block && r.URL == "":
		return d.Err("redis takes a URL such as redis://127.0.0.1:6379, or a block with address")
	case block && len(r.Addresses) == 0:
		return at.Wrap(errors.New("redis: address is missing; name at least one host:port"))
	}
	if err := r.check(); err != nil {
		return at.Wrap(err)
	}
	return nil
}

func parseRedisOption(d *caddyfile.Dispenser, r *Redis, option string) (err error) {
	switch option {
	case "address":
		r.Addresses = d.RemainingArgs()
		if len(r.Addresses) == 0 {
			return d.Err("address takes at least one host:port or the path of a socket")
		}
		return nil
	case "tls":
		return parseTLS(d, r)
	case "credentials":
		r.CredentialsRaw, err = options.ParseCredentials(d)
		return err
	case "sentinel_credentials":
		r.SentinelCredentialsRaw, err = options.ParseCredentials(d)
		return err
	}
	value, err := options.Value(d)
	if err != nil {
		return err
	}
	switch option {
	case "db":
		r.DB, err = options.Number(d, option, value, 0, math.MaxInt32)
	case "pool_size":
		r.PoolSize, err = options.Number(d, option, value, 1, dial.MaxPoolSize)
	default:
		*map[string]*string{
			"mode": (*string)(&r.Mode), "master": &r.Master, "username": &r.Username, "password": &r.Password,
			"sentinel_username": &r.SentinelUsername, "sentinel_password": &r.SentinelPassword,
		}[option] = value
	}
	return err
}

func parseTLS(d *caddyfile.Dispenser, r *Redis) error {
	if d.NextArg() {
		return d.Err("tls takes no values, only a block")
	}
	r.TLS = new(RedisTLS)
	fields := map[string]*string{"ca": &r.TLS.CA, "cert": &r.TLS.Cert, "key": &r.TLS.Key, "server_name": &r.TLS.ServerName}
	at, err := options.KnownBlocks.Each(d, tlsOptions, func(option string) (err error) {
		if option == "pin" {
			return parsePins(d, r.TLS)
		}
		*fields[option], err = options.Value(d)
		return err
	})
	switch {
	case err != nil:
		return err
	case (r.TLS.Cert == "") != (r.TLS.Key == ""):
		return at.Wrap(errors.New("tls: cert and key go together; name both files, or neither"))
	case r.TLS.CA != "" && len(r.TLS.Pins) > 0:
		return at.Wrap(secretfile.ErrPinAndCA)
	}
	return nil
}

// parsePins reads pins. Those with placeholders are checked when these are resolved.
func parsePins(d *caddyfile.Dispenser, t *RedisTLS) error {
	t.Pins = d.RemainingArgs()
	if len(t.Pins) == 0 {
		return d.Err("pin takes the SHA-256 of at least one public key; the command check prints it")
	}
	for _, pin := range t.Pins {
		if strings.Contains(pin, "{") {
			continue
		}
		if err := secretfile.ValidPin(pin); err != nil {
			return d.WrapErr(err)
		}
	}
	return nil
}
