// Package simulate plays requests of the past through a configuration.
package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/failover"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// appName is the name of the app that limiters need, and of their handler.
const appName = "redis_ratelimit"

// Simulation is a configuration that decides requests of the past: its routes, reduced to what decides
// before any of them is set up, and an in-process store on a clock that follows the log. It uses no
// Redis, no network, no certificate, no log and no file of a site. It is what the command replay plays.
type Simulation struct {
	limited  []*simServer                          // the servers that have limits
	limiters map[routetrace.Limiting]*gate.Limiter // those that decide
	ports    map[string][]*simServer               // all servers, by the ports that they listen at
	schemes  schemePorts
	policies []replay.PolicyResult // those that decide
	rules    []*rule.Rule          // the first of each policy
	indices  map[string]int        // of policies, by name
	headers  []string              // that keys are made of
	skipped  []string
	log      accesslog.ReaderOptions
	only     string // the one policy that decides; empty: all
	store    *failover.Store
	now      int64
	end      func()

	host      string // of requests whose log lacks it
	hostGiven bool   // by the user, not found out
	inputs    routetrace.MatcherInputs
	missing   missingData

	// Of the request that is played; memory that is used again.
	entry     *accesslog.Entry
	tracer    routetrace.Tracer
	onFinding func(rule.Finding)
	visiting  *visit           // the request at the limiter that evaluates it
	unread    unreadable       // of its key, of the rule that is evaluated; the zero value: all is readable
	checks    [2]limiter.Check // what one limiter takes
	decision  replay.Decision
	taken     []taken         // checks that depend on the response
	begun     []limiter.Check // checks that have units until the request ends
	held      int64           // how long queues have it wait, in microseconds
	refused   int             // the status that a policy refuses the request with; 0: none
	answered  bool            // a limiter answers the request itself, with quotas or by a challenge

	ends endings // of responses that are under way

	probe *probing // the made request that is played; nil: requests are those of a log
}

// New sets a configuration up. If a policy is named it alone decides.
func New(config []byte, only string) (*Simulation, error) {
	reduced, skipped, err := reduceConfig(config)
	if err != nil {
		return nil, err
	}
	ctx, end, err := newContext(reduced.app)
	if err != nil {
		return nil, err
	}
	s := &Simulation{
		limiters: map[routetrace.Limiting]*gate.Limiter{}, ports: map[string][]*simServer{}, schemes: reduced.schemes, indices: map[string]int{},
		only: only, end: end, skipped: skipped, log: reduced.log, missing: missingData{masks: reduced.masks},
	}
	s.tracer.OnLimiter, s.onFinding = s.onLimiter, s.noteFinding
	s.Forget()
	for _, name := range append(reduced.fileSystems, "") { // the last is the machine's own
		ctx.FileSystems().Register(name, noFiles{&s.missing})
	}
	if _, err := ctx.App(appName); err != nil { // an error of the app is none of a server
		end()
		return nil, err
	}
	if err := s.addServers(ctx, reduced); err != nil {
		end()
		return nil, err
	}
	s.host = s.inputs.OnlyHost()
	return s, nil
}

// Forget begins anew, with a store that has counted nothing.
func (s *Simulation) Forget() {
	memory := memory.NewOnClock(func() int64 { return s.now })
	memory.Limit(math.MaxInt64, nil)
	s.store, s.ends = failover.New(nil, memory, failover.Behavior{}), nil
}

// newContext makes a context of a configuration that has nothing but the app.
func newContext(app json.RawMessage) (caddy.Context, context.CancelFunc, error) {
	quiet := &caddy.Logging{Logs: map[string]*caddy.CustomLog{"default": {BaseLog: caddy.BaseLog{Level: "ERROR"}}}}
	config := &caddy.Config{Admin: &caddy.AdminConfig{Disabled: true}, Logging: quiet}
	base, err := caddy.ProvisionContext(config)
	if err != nil {
		return base, nil, err
	}
	if app != nil { // loaded on demand, so that this context cleans it up
		config.AppsRaw = caddy.ModuleMap{appName: app}
	}
	ctx, end := caddy.NewContext(base)
	return ctx, end, nil
}

// addServers sets the servers up.
func (s *Simulation) addServers(ctx caddy.Context, reduced *reducedConfig) error {
	limited := false
	for _, name := range reduced.names() {
		server, err := newServer(ctx, reduced.servers[name], reduced.schemes)
		if err != nil {
			return fmt.Errorf("server %s: %w", name, err)
		}
		for _, port := range routetrace.PortsOf(server.server) {
			s.ports[port] = append(s.ports[port], server)
		}
		decides := false
		for limiting := range server.tree.Limiters() {
			limited = true
			if l := s.addLimiter(limiting); l != nil {
				decides = true
				server.repeatable = server.repeatable && !l.Rules.ReadsBody() // its placeholders stay with the request
			}
		}
		if decides {
			s.limited = append(s.limited, server)
			s.inputs.Add(server.tree, s.limiters)
		}
	}
	switch {
	case !limited:
		return errors.New("the configuration has no redis_ratelimit in any site")
	case len(s.limited) == 0:
		return fmt.Errorf("the configuration has no policy %q", s.only)
	}
	return nil
}

// addLimiter takes a copy of a limiter with its rules that decide; nil where there are none. Invalid values pass unnoticed.
func (s *Simulation) addLimiter(limiting routetrace.Limiting) *gate.Limiter {
	l := limiting.RateLimiter()
	if l.Rules = l.Rules.Only(s.only); len(l.Rules.Rules) == 0 {
		return nil
	}
	for i := range l.Rules.Rules {
		s.addPolicy(&l.Rules.Rules[i])
	}
	s.limiters[limiting] = l
	return l
}

// addPolicy lists a rule's policy, and what the rule asks a log for.
func (s *Simulation) addPolicy(r *rule.Rule) {
	s.headers = append(s.headers, r.Key.Headers()...)
	s.log.Responses = s.log.Responses || r.ReadsResponseHeader()
	settings := r.Policy.Settings
	if index, known := s.indices[settings.Name]; known {
		s.policies[index].AddHandler(r.Describe().Handlers[0])
		bodies := &s.missing.bodies[index]
		bodies.options = routetrace.AppendNew(bodies.options, r.BodyOptions()...)
		return
	}
	s.indices[settings.Name] = len(s.policies)
	s.rules = append(s.rules, r)
	result := replay.PolicyResult{PolicyDescription: r.Describe()}
	s.policies = append(s.policies, result)
	s.missing.redactedKeys = append(s.missing.redactedKeys, 0)
	s.missing.costs, s.missing.waits = append(s.missing.costs, 0), append(s.missing.waits, 0)
	s.missing.bodies = append(s.missing.bodies, missingBodies{options: r.BodyOptions()})
}

// TellChanges has the results of policies tell what is not as it was before. It is called before the first request.
func (s *Simulation) TellChanges() {
	for i, r := range s.rules {
		s.policies[i].Changes = replay.NewChanges(r.Key.Secrets())
	}
	for _, l := range s.limiters {
		l.Rules.OnNewlyUnreadable = func(_ *rule.Rule, placeholder string, err error) { s.unread = unreadable{placeholder, err} }
	}
}

// Policy returns the policy of an index in [Simulation.Policies].
func (s *Simulation) Policy(index int) *limiter.Policy { return s.rules[index].Policy }

// Close ends the simulation.
func (s *Simulation) Close() { s.end() }

// SetHost names the host of requests whose log lacks it.
func (s *Simulation) SetHost(name string) { s.host, s.hostGiven = name, true }

// LogOptions returns how the configuration's logs are read.
func (s *Simulation) LogOptions() accesslog.ReaderOptions { return s.log }

// Policies implements [replay.Engine].
func (s *Simulation) Policies() []replay.PolicyResult { return slices.Clone(s.policies) }

// Skipped implements [replay.Engine].
func (s *Simulation) Skipped() []string { return s.skipped }

// KeyHeaders implements [replay.Engine].
func (s *Simulation) KeyHeaders() []string { return s.headers }

// Interface guards
var _ replay.Engine = (*Simulation)(nil)
