package redisratelimit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// This file warns of what a configuration can hardly mean. What one policy shows is logged when its directive is
// parsed, so that it is seen in adapt, and what needs all routes when the configuration is started or was validated.

// notices are the warnings that this process has logged last.
type notices struct {
	mu        sync.Mutex
	parsed    []routetrace.Warning // of the Caddyfile that was parsed last, until a configuration is started or validated
	validated []routetrace.Warning // of the configuration that was started or validated last, besides those
}

// beginParsing forgets the warnings of another Caddyfile.
func (n *notices) beginParsing() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.parsed = nil
}

// logParsed logs a warning of a directive, once a place: a snippet that several sites import is one.
func (n *notices) logParsed(w routetrace.Warning) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Contains(n.parsed, w) {
		n.parsed = append(n.parsed, w)
		logWarning(caddy.Log().Named(appName), w)
	}
}

// logValidated logs the warnings of a configuration, without those that were logged when its Caddyfile was parsed.
func (n *notices) logValidated(logger *zap.Logger, warnings []routetrace.Warning) {
	n.mu.Lock()
	defer n.mu.Unlock()
	parsed := n.parsed
	n.parsed, n.validated = nil, slices.Clip(parsed)
	for _, w := range warnings {
		isParsed := func(p routetrace.Warning) bool { return p.Text == w.Text }
		if !slices.ContainsFunc(parsed, isParsed) {
			n.validated = append(n.validated, w)
			logWarning(logger, w)
		}
	}
}

// takeValidated returns the warnings of the configuration that was validated last.
func (n *notices) takeValidated() []routetrace.Warning {
	n.mu.Lock()
	defer n.mu.Unlock()
	taken := n.validated
	n.validated = nil
	return taken
}

func logWarning(logger *zap.Logger, w routetrace.Warning) {
	logger.Warn(w.Text, zap.String("place", w.Place))
}

// logWarnings logs what the routes of the app's configuration can hardly mean.
func (a *App) logWarnings() {
	noticed.logValidated(a.logger, routetrace.Warnings(a.servers(), subjectOf))
}

// wasValidated reports whether the app is cleaned up because its configuration was validated, and is not to be started:
// Caddy then calls nothing else once all routes are set up.
func (a *App) wasValidated() bool {
	const causeOfCaddy = "validation complete"
	cause := context.Cause(a.ctx)
	return cause != nil && cause.Error() == causeOfCaddy
}

// warningsOf validates a configuration, and returns the warnings about it.
func warningsOf(config []byte) ([]routetrace.Warning, error) {
	c := new(caddy.Config)
	if err := caddy.StrictUnmarshalJSON(caddy.RemoveMetaFields(config), c); err != nil {
		return nil, fmt.Errorf("decoding the configuration: %w", err)
	}
	// Log files are opened by no command, and the warnings are printed.
	c.Logging = &caddy.Logging{Logs: map[string]*caddy.CustomLog{"default": {BaseLog: caddy.BaseLog{Level: "FATAL"}}}}
	if err := caddy.Validate(c); err != nil {
		return nil, err
	}
	return noticed.takeValidated(), nil
}

// subjectOf returns what warnings depend on of a handler; nil for handlers of others.
func subjectOf(handler caddyhttp.MiddlewareHandler) *routetrace.Subject {
	h, ok := handler.(*Handler)
	if !ok {
		return nil
	}
	s := &routetrace.Subject{Usage: h.Usage, JSON: h.configured, Unnamed: h.unnamed}
	for _, p := range h.Policies {
		s.Alone = append(s.Alone, p.warnings()...)
	}
	for i := range h.limiter.Rules.Rules {
		r := &h.limiter.Rules.Rules[i]
		for _, header := range r.RequestHeaders() {
			if !slices.Contains(clientHeaders, header) { // of which the policy warns
				s.Headers = routetrace.AppendNew(s.Headers, header)
			}
		}
		s.Placeholders = routetrace.AppendNew(s.Placeholders, r.Placeholders()...)
		s.Matches = append(s.Matches, r.Match)
	}
	slices.Sort(s.Headers)
	return s
}

// clientHeaders are those in which proxies pass a client's address on, in their canonical form. Clients can write them.
var clientHeaders = []string{"X-Forwarded-For", "X-Real-Ip", "Cf-Connecting-Ip", "True-Client-Ip", "Forwarded"}

// The placeholders that differ from connection to connection.
const (
	remoteName     = "http.request.remote"
	remotePortName = "http.request.remote.port"
)

// warnings returns what the policy can hardly mean, whatever is around its handler. Defaults must be set, and the policy
// be checked.
func (p *Policy) warnings() (texts []string) {
	const (
		fix      = "; write {client_ip} (in JSON {http.vars.client_ip})"
		ofClient = "policy %q: the key goes by the header %s, which clients can write, so that each request may have a quota of its own" +
			fix + ", and name the proxies in front in trusted_proxies of the global option servers"
		ofConnection = "policy %q: the key has %s, which has the port of the connection, so that each connection has a quota of its own" + fix
	)
	key, err := rule.ParseKey(p.Key, p.prefixes())
	if err != nil {
		return nil // which check refuses
	}
	for _, header := range key.Headers() {
		if slices.Contains(clientHeaders, header) {
			texts = append(texts, fmt.Sprintf(ofClient, p.Name, header))
		}
	}
	for _, name := range key.Placeholders() {
		if (name == remoteName || name == remotePortName) && !p.countsRunning() {
			short := "{remote" + strings.ReplaceAll(strings.TrimPrefix(name, remoteName), ".", "_") + "}"
			texts = append(texts, fmt.Sprintf(ofConnection, p.Name, short))
		}
	}
	return texts
}
