package simulate

import (
	"context"
	"net/netip"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// Probed is what became of a probe.
type Probed struct {
	*replay.Decision

	// Checks are those of all decisions, with their results.
	Checks []limiter.Check

	// Answered is the handler that answers the request, if no policy does; nil: none that is known.
	Answered caddyhttp.MiddlewareHandler

	// HasContent says that a handler answers which is there for the content of a site, or that one may which was left out.
	HasContent bool
}

// Send plays a probe. What is returned is valid until the next one.
func (s *Simulation) Send(p *Probe) Probed {
	probe := &probing{Probe: p}
	s.probe = probe
	s.tracer.Answered = nil
	sent := Probed{Decision: s.Play(&p.Entry), Checks: probe.checks, Answered: s.tracer.Answered}
	s.probe = nil
	switch answered := sent.Answered.(type) {
	case nil:
		sent.HasContent = probe.mayAnswer
	case *caddyhttp.StaticError:
		sent.HasContent = answered.Error == contentMark
	}
	return sent
}

// Place is a handler that applies a policy, with the ways of requests to it.
type Place struct {
	routetrace.Way

	// Rule is the policy's first rule there.
	Rule *rule.Rule

	// Server is what a request needs to come to the server of the place.
	Server ServerAddress
}

// ServerAddress is where a server is reached.
type ServerAddress struct {
	Name string
	TLS  bool
	Port string // empty: that of the scheme

	// TrustedProxy is the address of a proxy that the server trusts; the zero value: it trusts none that is known here.
	TrustedProxy netip.Addr

	// ClientHeaders are the headers that such a proxy names clients in, the first that is there counts.
	ClientHeaders []string

	// Unasked is the source of trusted proxies, if it is one that is not asked here.
	Unasked string
}

// mostPlaces bounds the places that are listed. Named routes that invoke each other have any number.
const mostPlaces = 10_000

// Places lists the places of all policies, in the order of the servers and routes.
func (s *Simulation) Places() (places []Place) {
	for _, server := range s.limited {
		address := s.addressOf(server)
		for way := range server.tree.Ways() {
			l := s.limiters[way.Limiting]
			if l == nil {
				continue
			}
			for i := range l.Rules.Rules {
				if len(places) == mostPlaces {
					return places
				}
				places = append(places, Place{way, &l.Rules.Rules[i], address})
			}
		}
	}
	return places
}

// addressOf returns where a server is reached.
func (s *Simulation) addressOf(server *simServer) ServerAddress {
	a := ServerAddress{TLS: server.tls}
	if ports := routetrace.PortsOf(server.server); len(ports) > 0 && !slices.Contains(ports, s.schemes.of(server.tls)) {
		a.Port = ports[0]
	}
	if t := server.trust; t != nil {
		a.ClientHeaders, a.Unasked = t.headers, t.unasked
		if len(t.ranges) > 0 {
			a.TrustedProxy = t.ranges[0].Addr()
		}
	}
	return a
}

// of returns the port of a scheme.
func (p schemePorts) of(tls bool) string {
	if tls {
		return p.https
	}
	return p.http
}

// Isolate has one policy decide alone, wherever it stands, on a store that has counted nothing.
func (s *Simulation) Isolate(policy string, places []Place) {
	s.limiters = map[routetrace.Limiting]*gate.Limiter{}
	for i := range places {
		p := &places[i]
		if p.Rule.Policy.Name() != policy || s.limiters[p.Limiting] != nil {
			continue
		}
		l := p.Limiting.RateLimiter()
		l.Rules = l.Rules.Only(policy)
		s.limiters[p.Limiting] = l
	}
	s.Forget()
}

// Charge takes units from the quota of a check, and reports whether there were as many.
func (s *Simulation) Charge(check *limiter.Check, units int64) bool {
	charged := []limiter.Check{{Policy: check.Policy, Key: check.Key, Weight: units}}
	_, err := s.store.Decide(context.Background(), charged)
	return err == nil && limiter.Allowed(charged)
}
