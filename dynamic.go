package redisratelimit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/monotonic"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// dynamic is the numbers of a rule that come from placeholders; empty names: there is none.
type dynamic struct {
	limit, burst, weight string // names of placeholders
	variants             *variants
}

// variants are a policy with the limits and bursts that requests have brought along.
type variants struct {
	base *limiter.Policy

	mu    sync.RWMutex
	known map[[2]int64]*limiter.Policy
}

// maxVariants bounds them. There are as many as plans, not as clients; where there are more, all
// are made anew.
const maxVariants = 1024

// of returns the policy with a limit and a burst.
func (v *variants) of(limit, burst int64) (*limiter.Policy, error) {
	key := [2]int64{limit, burst}
	v.mu.RLock()
	p := v.known[key]
	v.mu.RUnlock()
	if p != nil {
		return p, nil
	}
	p, err := v.base.WithLimit(limit, burst)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known == nil || len(v.known) >= maxVariants {
		v.known = map[[2]int64]*limiter.Policy{}
	}
	v.known[key] = p
	return p, nil
}

// numbers returns a rule's policy and weight for a request.
func (h *Handler) numbers(rule *rule, repl *caddy.Replacer) (*limiter.Policy, int64) {
	d := &rule.dynamic
	weight := rule.weight
	if n, ok := h.number(rule, "weight", d.weight, repl); ok {
		weight = max(1, n) // nobody names himself a free pass
	}
	if d.limit == "" && d.burst == "" {
		return rule.policy, weight
	}
	settings := rule.policy.Settings()
	limit, burst := settings.Limit, settings.Burst
	if n, ok := h.quota(rule, "limit", d.limit, repl); ok {
		limit = n
	}
	if n, ok := h.quota(rule, "burst", d.burst, repl); ok {
		burst = n
	}
	if limit == settings.Limit && burst == settings.Burst {
		return rule.policy, weight
	}
	policy, err := d.variants.of(limit, burst)
	if err != nil {
		policy = h.closestValid(rule, limit, burst)
	}
	return policy, weight
}

// closestValid is the policy with one of a limit and a burst that are not possible together: a bad value of
// one takes nothing from the other.
func (h *Handler) closestValid(rule *rule, limit, burst int64) *limiter.Policy {
	settings := rule.policy.Settings()
	policy, err := rule.dynamic.variants.of(limit, settings.Burst)
	if err == nil {
		h.warnInvalid(rule, "burst", errImpossible)
		return policy
	}
	h.warnInvalid(rule, "limit", errImpossible)
	if policy, err = rule.dynamic.variants.of(settings.Limit, burst); err == nil {
		return policy
	}
	return rule.policy
}

// errImpossible does not quote the value, which may come from a client.
var errImpossible = errors.New("the number is not possible with the policy's window and algorithm")

// quota reads the placeholder of a limit or a burst, which are from 1.
func (h *Handler) quota(rule *rule, option, name string, repl *caddy.Replacer) (int64, bool) {
	n, ok := h.number(rule, option, name, repl)
	if ok && n < 1 {
		h.warnInvalid(rule, option, fmt.Errorf("{%s} is below 1", name))
		return 0, false
	}
	return n, ok
}

// number reads a placeholder. Where it is empty, or no whole number, there is none.
func (h *Handler) number(rule *rule, option, name string, repl *caddy.Replacer) (int64, bool) {
	if name == "" {
		return 0, false
	}
	text, _ := repl.GetString(name)
	text = strings.TrimSpace(text)
	if text == "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		h.warnInvalid(rule, option, fmt.Errorf("{%s} is no whole number", name))
		return 0, false
	}
	return n, true
}

// complaints lets one log line about values pass a minute.
var complaints monotonic.Gate

// warnInvalid counts a value that cannot be used, and logs one a minute. What clients send stays out
// of the log.
func (h *Handler) warnInvalid(rule *rule, option string, err error) {
	rule.counters.countInvalid(option)
	if !complaints.Pass(time.Now(), time.Minute) {
		return
	}
	h.logger.Warn("a value from a placeholder cannot be used; the fallback is used instead",
		zap.String("policy", rule.policy.Name()), zap.String("option", option), zap.Error(err))
}

// parseSource reads the placeholder that a number comes from. Names without a dot are those that
// Caddy's map directive makes.
func parseSource(option, text string) (name string, err error) {
	if text == "" {
		return "", nil
	}
	name, opened := strings.CutPrefix(text, "{")
	name, closed := strings.CutSuffix(name, "}")
	if !opened || !closed || name == "" || strings.ContainsAny(name, "{}") {
		return "", fmt.Errorf("%s %s: use one placeholder such as {http.vars.plan_limit}", option, text)
	}
	return name, nil
}

// sources reads all placeholders of a policy.
func (p *Policy) sources() (d dynamic, err error) {
	for _, source := range []struct {
		option, text string
		name         *string
	}{{"limit", p.LimitFrom, &d.limit}, {"burst", p.BurstFrom, &d.burst}, {"weight", p.WeightFrom, &d.weight}} {
		if *source.name, err = parseSource(source.option, source.text); err != nil {
			return d, err
		}
	}
	return d, nil
}
