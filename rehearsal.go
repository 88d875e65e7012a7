package redisratelimit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/command"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/replay"
)

// rehearsal is a configuration that decides requests of the past: its routes, reduced to what decides
// before anything of them is set up, with an in-process store on a clock that follows the log. It
// touches no Redis, no network, no certificate and no log.
type rehearsal struct {
	stages   []stage
	policies []replay.PolicyResult
	bases    []*limiter.Policy // the same
	indices  map[string]int    // of policies, by name
	headers  []string          // that keys are made of
	skipped  []string
	only     string // the one policy that decides; empty: all
	guard    *limiter.Guard
	now      int64
	end      func()
	tried    *keyTemplate // the key that limits are suggested for, where it is not the policy's own

	verdict replay.Verdict
}

// stage is one server of the configuration that has limits.
type stage struct {
	name   string
	server *caddyhttp.Server
	course *course
	tls    bool

	// A request that is prepared takes a third of a line's time. It serves for all where nothing that
	// the stage runs leaves traces in it or asks for what it was at first.
	repeatable bool
	prepared   *http.Request
}

// newRehearsal sets a configuration up. Where a policy is named it alone decides.
func newRehearsal(config []byte, only string) (*rehearsal, error) {
	reduced, skipped, err := reduceConfig(config)
	if err != nil {
		return nil, err
	}
	ctx, end, err := rehearsalContext(reduced.app)
	if err != nil {
		return nil, err
	}
	r := &rehearsal{indices: map[string]int{}, only: only, end: end, skipped: skipped}
	if err := r.setUp(ctx, reduced); err != nil {
		end()
		return nil, err
	}
	return r, nil
}

// rehearsalContext is a configuration that has nothing but the app.
func rehearsalContext(app json.RawMessage) (caddy.Context, context.CancelFunc, error) {
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
func (r *rehearsal) setUp(ctx caddy.Context, reduced *reducedConfig) error {
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
	r.guard = limiter.NewGuard(nil, memory, limiter.GuardOptions{})
	app.guard = r.guard
	for _, name := range reduced.names() {
		s, err := newStage(ctx, name, reduced.servers[name])
		if err != nil {
			return fmt.Errorf("server %s: %w", name, err)
		}
		if hasLimiter(s.course.routes) {
			r.stages = append(r.stages, s)
			r.addPolicies(s.course.routes)
		}
	}
	switch {
	case len(r.stages) == 0:
		return errors.New("the configuration has no redis_ratelimit in any site")
	case r.only != "" && !r.has(r.only):
		return fmt.Errorf("the configuration has no policy %q", r.only)
	}
	return nil
}

// newStage provisions a server's reduced routes.
func newStage(ctx caddy.Context, name string, raw *reducedServer) (s stage, err error) {
	server := &caddyhttp.Server{Listen: raw.Listen, NamedRoutes: raw.NamedRoutes, Routes: raw.Routes}
	if err := server.Routes.Provision(ctx); err != nil {
		return s, err
	}
	for _, route := range server.NamedRoutes {
		if err := route.Provision(ctx, nil); err != nil {
			return s, err
		}
	}
	tls := len(raw.TLS) > 0 || listensAt(server, "443")
	return stage{name: name, server: server, course: newCourse(server.Routes, server.NamedRoutes), tls: tls, repeatable: raw.repeatable}, nil
}

// addPolicies lists the policies of routes, and what their keys are made of.
func (r *rehearsal) addPolicies(routes []reducedRoute) {
	for i := range routes {
		for j := range routes[i].steps {
			s := &routes[i].steps[j]
			r.addPolicies(s.inside)
			if s.limiter == nil {
				continue
			}
			s.limiter.logger = zap.NewNop()
			for k := range s.limiter.rules {
				r.addPolicy(s.limiter.Policies[k].Key, &s.limiter.rules[k])
			}
		}
	}
}

func (r *rehearsal) addPolicy(key string, rule *rule) {
	for i := range rule.key.parts {
		part := &rule.key.parts[i]
		switch {
		case part.header != "":
			r.headers = append(r.headers, part.header)
		case strings.HasPrefix(part.placeholder, "http.auth.user."):
			r.headers = append(r.headers, "user_id")
		}
	}
	s := rule.policy.Settings()
	if _, known := r.indices[s.Name]; known || (r.only != "" && s.Name != r.only) {
		return
	}
	r.indices[s.Name] = len(r.policies)
	r.bases = append(r.bases, rule.policy)
	r.policies = append(r.policies, replay.PolicyResult{
		Name: s.Name, Algorithm: s.Algorithm, Limit: s.Limit, Window: s.Window, Burst: s.Burst,
		Key: key, DryRun: rule.dryRun,
	})
}

func (r *rehearsal) has(policy string) bool {
	_, known := r.indices[policy]
	return known
}

// Policy implements [command.Rehearsal].
func (r *rehearsal) Policy(index int) *limiter.Policy { return r.bases[index] }

// Close implements [command.Rehearsal].
func (r *rehearsal) Close() { r.end() }

// TryKey implements [command.Rehearsal].
func (r *rehearsal) TryKey(text string) error {
	segment := caddyfile.Segment{{Text: text}}
	httpcaddyfile.NewShorthandReplacer().ApplyToSegment(&segment)
	key, err := parseKey(segment[0].Text, prefixes{ipv4: 32, ipv6: 64})
	r.tried = &key
	return err
}

// Policies implements [replay.Engine].
func (r *rehearsal) Policies() []replay.PolicyResult { return slices.Clone(r.policies) }

// Skipped implements [replay.Engine].
func (r *rehearsal) Skipped() []string { return r.skipped }

// KeyHeaders implements [replay.Engine].
func (r *rehearsal) KeyHeaders() []string { return r.headers }

// Warnings implements [replay.Engine].
func (r *rehearsal) Warnings() []string { return nil }

// Interface guards
var _ command.Rehearsal = (*rehearsal)(nil)
