package redisratelimit

import (
	"slices"
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

// logParsed logs a warning of a directive, once for a line: several sites may import the same snippet.
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
