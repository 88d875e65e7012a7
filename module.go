// Package redisratelimit limits how many requests a client may send to a Caddy site, with counts
// that any number of Caddy nodes share through Redis.
//
// It registers the HTTP handler http.handlers.redis_ratelimit, the app redis_ratelimit that holds
// what all handlers share, and the Caddyfile directive and global option of the same name. The
// decisions themselves are made by the package limiter.
package redisratelimit

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/humanize"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

func init() {
	caddy.RegisterModule(Handler{})
}

// Handler limits the requests that pass through it. A request is charged to every policy, or, if
// one of them denies it, to none.
//
// Policies are shared by name: handlers, sites and Caddy nodes that use one name share one count
// per client key.
type Handler struct {
	// The policies that a request must pass. At least one.
	Policies []*Policy `json:"policies,omitempty"`

	// What happens to a request when Redis cannot decide: `local` decides by the same policies in
	// this process, `open` lets it through, `closed` answers 503. Default: that of the app.
	FailMode limiter.FailMode `json:"fail_mode,omitempty"`

	// The status of a denial, from 400 to 599. Default: 429.
	Status int `json:"status,omitempty"`

	// How many leading bits of an IPv4 address count, from 0 to 32, where `{http.vars.client_ip}`
	// or `{http.request.remote.host}` stands in a key. Default: 32.
	IPv4Prefix *int `json:"ipv4_prefix,omitempty"`

	// The same for IPv6, from 0 to 128. Default: 64, because a single client commonly has a whole
	// /64 of addresses.
	IPv6Prefix *int `json:"ipv6_prefix,omitempty"`

	// What is done when a placeholder of a key is empty: `client_ip` takes the client's address
	// instead (in a share of its own kind, so that no header value can name it), `skip` leaves the
	// policy out, `reject` answers 400. Default: `client_ip`.
	OnEmptyKey string `json:"on_empty_key,omitempty"`

	// Clients that are never limited and never counted: addresses, CIDR ranges and
	// `private_ranges`. Default: none.
	Exempt []string `json:"exempt,omitempty"`

	// The headers that show a client's share: `x_ratelimit`, `ietf` (RateLimit and
	// RateLimit-Policy of draft-ietf-httpapi-ratelimit-headers-11), both, or `off`. `Retry-After`
	// comes with a denial in any case. Default: `x_ratelimit`.
	Headers []string `json:"headers,omitempty"`

	// Adds up to so much, at random, to `Retry-After`, so that clients do not all come back at once.
	// At most 24h. Default: 0.
	RetryJitter caddy.Duration `json:"retry_jitter,omitempty"`

	// Whether a refusal is answered directly, with a body of the type application/problem+json
	// (RFC 9457), instead of through the error routes. Default: false.
	ProblemDetails bool `json:"problem_details,omitempty"`

	// Whether all policies only pretend, as `dry_run` of a policy says. Default: false.
	DryRun bool `json:"dry_run,omitempty"`

	// Whether clients' keys may appear in this module's log lines about denials. Default: false.
	LogKeys bool `json:"log_keys,omitempty"`

	app    *App
	rules  []rule
	places map[string]int // of the first rule by each policy's ID, where they are more than few
	logger *zap.Logger
	events *eventEmitter

	exempt                  []netip.Prefix
	formats                 formats
	charges                 bool // one of the rules does, after the response
	settles                 bool // one of the rules refunds or charges after its decision
	onlyServerHandlesErrors bool // between this handler and the server nobody handles errors
}

const (
	maxRetryJitter    = 24 * time.Hour
	retryJitterBounds = "a duration from 0 to 24h, such as 5s"
)

// The values of on_empty_key.
const (
	emptyKeyClientIP = "client_ip"
	emptyKeySkip     = "skip"
	emptyKeyReject   = "reject"
)

// CaddyModule returns the Caddy module information.
func (Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.redis_ratelimit",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision makes the rules that requests are decided by.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.logger = ctx.Logger()
	h.onlyServerHandlesErrors = onlyServerHandlesErrors(ctx)
	h.setDefaults()
	if err := h.check(); err != nil {
		return err
	}
	module, err := ctx.App(appName)
	if err != nil {
		return fmt.Errorf("getting the %s app: %w", appName, err)
	}
	app, ok := module.(*App)
	if !ok {
		return fmt.Errorf("the %s app is a %T", appName, module)
	}
	h.app = app
	if h.FailMode == "" {
		h.FailMode = app.FailMode
	}
	if h.events, err = newEventEmitter(ctx); err != nil {
		return err
	}
	return h.load(ctx)
}

// load makes the rules.
func (h *Handler) load(ctx caddy.Context) error {
	for _, p := range h.Policies {
		rule, err := h.newRule(ctx, p)
		if err != nil {
			return fmt.Errorf("policy %q: %w", p.Name, err)
		}
		h.addRule(rule)
		h.charges = h.charges || rule.charge.from != ""
		h.settles = h.settles || h.charges || rule.countIf != nil
	}
	return nil
}

// fewRules is how many are looked for one by one, which takes less than a map.
const fewRules = 8

// addRule adds a rule and notes where it stands.
func (h *Handler) addRule(r rule) {
	rule := h.ruleOf(r.policy)
	r.repeats = rule != nil
	h.rules = append(h.rules, r)
	if len(h.rules) > fewRules && !r.repeats {
		if h.places == nil {
			h.places = map[string]int{}
		}
		h.places[r.policy.ID()] = len(h.rules) - 1
	}
}

// newRule makes the rule of a policy that was checked.
func (h *Handler) newRule(ctx caddy.Context, p *Policy) (r rule, err error) {
	claimed, err := h.app.policy(p.settings(), p.identity(h.prefixes()))
	if err != nil {
		return r, err
	}
	r = rule{
		policy: claimed.policy, counters: claimed.counters,
		weight: p.Weight, dryRun: p.DryRun || h.DryRun, countIf: p.CountIf,
	}
	if r.match, err = p.loadMatchers(ctx); err != nil {
		return r, err
	}
	if r.key, err = parseKey(p.Key, h.prefixes()); err != nil {
		return r, err
	}
	if r.dynamic, err = p.sources(); err != nil {
		return r, err
	}
	r.dynamic.variants = claimed.variants
	if r.charge, err = p.parseCharge(); err != nil {
		return r, err
	}
	if p.CountIf != nil {
		err = claimed.policy.AllowRefunds()
	}
	return r, err
}

// setDefaults fills in what was left out, except the fail mode, which the app knows.
func (h *Handler) setDefaults() {
	for _, p := range h.Policies {
		if p != nil { // which check refuses
			p.setDefaults()
		}
	}
	if h.Status == 0 {
		h.Status = http.StatusTooManyRequests
	}
	if len(h.Headers) == 0 {
		h.Headers = []string{formatXRateLimit}
	}
	if h.OnEmptyKey == "" {
		h.OnEmptyKey = emptyKeyClientIP
	}
	if h.IPv4Prefix == nil {
		h.IPv4Prefix = new(32)
	}
	if h.IPv6Prefix == nil {
		h.IPv6Prefix = new(64)
	}
}

// check reads what is text and refuses values that no request could be served with. Defaults must be
// set.
func (h *Handler) check() error {
	if len(h.Policies) == 0 {
		return errors.New("policies: name at least one, with a limit and a window")
	}
	for i, p := range h.Policies {
		if p == nil {
			return fmt.Errorf("policies[%d]: null; write a policy with a limit and a window, or leave it out", i)
		}
		if err := p.check(h.prefixes()); err != nil {
			return err
		}
	}
	if err := h.checkRepeated(); err != nil {
		return err
	}
	var err error
	if h.exempt, err = parseExempt(h.Exempt); err != nil {
		return err
	}
	if h.formats, err = parseFormats(h.Headers); err != nil {
		return err
	}
	switch {
	case h.RetryJitter < 0 || time.Duration(h.RetryJitter) > maxRetryJitter:
		return fmt.Errorf("retry_jitter %v: use %s", time.Duration(h.RetryJitter), retryJitterBounds)
	case h.FailMode != "" && !slices.Contains(limiter.FailModes(), h.FailMode):
		return fmt.Errorf("fail_mode %q: use local, open or closed", humanize.Shown(h.FailMode))
	case h.Status < 400 || h.Status > 599:
		return fmt.Errorf("status %d: use a number from 400 to 599", h.Status)
	case *h.IPv4Prefix < 0 || *h.IPv4Prefix > 32:
		return fmt.Errorf("ipv4_prefix %d: use a number from 0 to 32", *h.IPv4Prefix)
	case *h.IPv6Prefix < 0 || *h.IPv6Prefix > 128:
		return fmt.Errorf("ipv6_prefix %d: use a number from 0 to 128", *h.IPv6Prefix)
	case !slices.Contains([]string{emptyKeyClientIP, emptyKeySkip, emptyKeyReject}, h.OnEmptyKey):
		return fmt.Errorf("on_empty_key %q: use client_ip, skip or reject", humanize.Shown(h.OnEmptyKey))
	}
	return nil
}

func (h *Handler) prefixes() prefixes {
	return prefixes{ipv4: *h.IPv4Prefix, ipv6: *h.IPv6Prefix}
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
