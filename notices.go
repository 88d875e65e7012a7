package redisratelimit

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
)

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
func (n *notices) logParsed(logger *zap.Logger, w routetrace.Warning) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Contains(n.parsed, w) {
		n.parsed = append(n.parsed, w)
		logWarning(logger, w)
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
			fix + ", and in the global option servers name the proxies in front in trusted_proxies"
		ofConnection = "policy %q: the key has %s, which has the port of the connection, so that each connection has a quota of its own" + fix
	)
	for _, header := range p.parsed.Key.Headers() {
		if slices.Contains(clientHeaders, header) {
			text := fmt.Sprintf(ofClient, p.Name, header)
			if header != "X-Forwarded-For" && header != "Forwarded" { // the one that is the default, and one that Caddy cannot read
				text += ", and this header in client_ip_headers"
			}
			texts = append(texts, text)
		}
	}
	for _, name := range p.parsed.Key.Placeholders() {
		if (name == remoteName || name == remotePortName) && !p.countsRunning() {
			short := "{remote" + strings.ReplaceAll(strings.TrimPrefix(name, remoteName), ".", "_") + "}"
			return append(texts, fmt.Sprintf(ofConnection, p.Name, short))
		}
	}
	return texts
}
