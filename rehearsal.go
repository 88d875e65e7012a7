package redisratelimit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/command"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// simulation is a configuration that decides requests of the past: its routes, reduced to what decides
// before anything of them is set up, with an in-process store on a clock that follows the log. It
// touches no Redis, no network, no certificate, no log and no file of a site.
type simulation struct {
	limited  []*simServer            // the servers that have limits
	ports    map[string][]*simServer // all servers, by the ports that they listen at
	schemes  schemePorts
	policies []replay.PolicyResult // those that decide
	rules    []*rule               // of each the first
	indices  map[string]int        // of policies, by name
	headers  []string              // that keys are made of
	skipped  []string
	log      accesslog.Options
	only     string // the one policy that decides; empty: all
	guard    *limiter.Failover
	now      int64
	end      func()
	tried    *keyTemplate // the key that limits are suggested for, where it is not the policy's own

	host      string // of requests whose log does not tell it
	hostNamed bool   // by somebody, not found out
	inputs    matcherInputs
	missing   missingData

	// Of the request that is played; memory that is used again.
	entry   *accesslog.Entry
	walk    routeTracer
	verdict replay.Verdict
	taken   []taken // what depends on the response
	refused int     // the status that a policy refuses the request with; 0: none does
}

// newSimulation sets a configuration up. Where a policy is named it alone decides.
func newSimulation(config []byte, only string) (*simulation, error) {
	reduced, skipped, err := reduceConfig(config)
	if err != nil {
		return nil, err
	}
	ctx, end, err := simulationContext(reduced.app)
	if err != nil {
		return nil, err
	}
	r := &simulation{
		ports: map[string][]*simServer{}, schemes: reduced.schemes, indices: map[string]int{},
		only: only, end: end, skipped: skipped, log: reduced.log,
	}
	r.walk.onLimiter = r.onLimiter
	if err := r.setUp(ctx, reduced); err != nil {
		end()
		return nil, err
	}
	return r, nil
}

// simulationContext is a configuration that has nothing but the app.
func simulationContext(app json.RawMessage) (caddy.Context, context.CancelFunc, error) {
	quiet := &caddy.Logging{Logs: map[string]*caddy.CustomLog{"default": {BaseLog: caddy.BaseLog{Level: "ERROR"}}}}
	config := &caddy.Config{Admin: &caddy.AdminConfig{Disabled: true}, Logging: quiet}
	base, err := caddy.ProvisionContext(config)
	if err != nil {
		return base, nil, err
	}
	if app != nil { // loaded by whoever asks for it first, so that this context cleans it up
		config.AppsRaw = caddy.ModuleMap{appName: app}
	}
	ctx, end := caddy.NewContext(base)
	return ctx, end, nil
}

// setUp makes the stages and has the app decide on the rehearsal's clock.
func (r *simulation) setUp(ctx caddy.Context, reduced *reducedConfig) error {
	module, err := ctx.App(appName)
	if err != nil {
		return err
	}
	app, ok := module.(*App)
	if !ok {
		return fmt.Errorf("the %s app is a %T", appName, module)
	}
	memory := limiter.NewMemory(func() int64 { return r.now })
	memory.Limit(math.MaxInt64, nil)
	r.guard = limiter.NewFailover(nil, memory, limiter.FailoverOptions{})
	app.guard = r.guard
	for _, name := range append(reduced.fileSystems, "") { // the last is the machine's own
		ctx.FileSystems().Register(name, noFiles{&r.missing})
	}
	if err := r.addServers(ctx, reduced); err != nil {
		return err
	}
	r.host = r.inputs.onlyHost()
	return nil
}

// addServers sets the servers up.
func (r *simulation) addServers(ctx caddy.Context, reduced *reducedConfig) error {
	limited := false
	for _, name := range reduced.names() {
		s, err := newSimServer(ctx, reduced.servers[name], reduced.schemes)
		if err != nil {
			return fmt.Errorf("server %s: %w", name, err)
		}
		for _, port := range portsOf(s.server) {
			r.ports[port] = append(r.ports[port], s)
		}
		limited = limited || hasLimiter(s.routes)
		r.addPolicies(s.routes)
		if hasLimiter(s.routes) {
			r.limited = append(r.limited, s)
			r.inputs.addRoutes(s.routes, false)
		}
	}
	switch {
	case !limited:
		return errors.New("the configuration has no redis_ratelimit in any site")
	case len(r.limited) == 0:
		return fmt.Errorf("the configuration has no policy %q", r.only)
	}
	return nil
}

// addPolicies lists the policies of routes that decide, and takes the others out.
func (r *simulation) addPolicies(routes []reducedRoute) {
	for i := range routes {
		routes[i].steps = slices.DeleteFunc(routes[i].steps, func(s step) bool {
			r.addPolicies(s.inside)
			return s.limiter != nil && !r.addHandler(s.limiter)
		})
	}
}

// addHandler is false for a handler without a policy that decides.
func (r *simulation) addHandler(h *Handler) bool {
	h.logger = zap.NewNop()
	if r.only != "" {
		h.rules = slices.DeleteFunc(h.rules, func(rule rule) bool { return rule.policy.Name() != r.only })
		h.Policies = slices.DeleteFunc(h.Policies, func(p *Policy) bool { return p.Name != r.only })
	}
	for i := range h.rules {
		r.addPolicy(h.Policies[i], &h.rules[i])
	}
	return len(h.rules) > 0
}

// addPolicy lists a policy, and what it asks a log for.
func (r *simulation) addPolicy(p *Policy, rule *rule) {
	r.headers = append(r.headers, rule.key.headers()...)
	r.log.Responses = r.log.Responses || rule.asksResponse()
	s := rule.policy.Settings()
	if _, known := r.indices[s.Name]; known {
		return
	}
	r.indices[s.Name] = len(r.policies)
	r.rules = append(r.rules, rule)
	result := replay.PolicyResult{
		Name: s.Name, Algorithm: s.Algorithm, Limit: s.Limit, Window: s.Window, Burst: s.Burst,
		Key: p.Key, DryRun: rule.dryRun, LimitFrom: p.LimitFrom, BurstFrom: p.BurstFrom,
		CountIf: p.CountIf != nil, Charge: p.ChargeFrom,
	}
	if p.MaxDelay != nil {
		result.MaxDelay = time.Duration(*p.MaxDelay)
	}
	r.policies = append(r.policies, result)
	r.missing.redactedKeys = append(r.missing.redactedKeys, 0)
}

// headers are those of the request that a key is made of; user_id stands for the user.
func (t *keyTemplate) headers() (names []string) {
	for i := range t.parts {
		switch part := &t.parts[i]; {
		case part.header != "":
			names = append(names, part.header)
		case strings.HasPrefix(part.placeholder, userPrefix):
			names = append(names, "user_id")
		}
	}
	return names
}

// Policy implements [command.Rehearsal].
func (r *simulation) Policy(index int) *limiter.Policy { return r.rules[index].policy }

// Close implements [command.Rehearsal].
func (r *simulation) Close() { r.end() }

// SuggestKey implements [command.Rehearsal].
func (r *simulation) SuggestKey(text string) error {
	segment := caddyfile.Segment{{Text: text}}
	httpcaddyfile.NewShorthandReplacer().ApplyToSegment(&segment)
	key, err := parseKey(segment[0].Text, r.rules[0].key.prefixes)
	if err != nil {
		return err
	}
	r.tried, r.missing.triedKey = &key, text
	r.headers = append(r.headers, key.headers()...)
	return nil
}

// SetHost implements [command.Rehearsal].
func (r *simulation) SetHost(name string) { r.host, r.hostNamed = name, true }

// LogOptions implements [command.Rehearsal].
func (r *simulation) LogOptions() accesslog.Options { return r.log }

// Policies implements [replay.Engine].
func (r *simulation) Policies() []replay.PolicyResult { return slices.Clone(r.policies) }

// Skipped implements [replay.Engine].
func (r *simulation) Skipped() []string { return r.skipped }

// KeyHeaders implements [replay.Engine].
func (r *simulation) KeyHeaders() []string { return r.headers }

// Interface guards
var _ command.Simulation = (*simulation)(nil)
