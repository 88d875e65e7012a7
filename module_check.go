package redisratelimit

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/failover"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/secretfile"
)

// checkPolicies refuses policies that no rule can be made of. Defaults must be set.
func (h *Handler) checkPolicies() error {
	if len(h.Policies) == 0 {
		return errors.New("policies: name at least one, with a limit and a window")
	}
	if err := h.checkCommon(); err != nil {
		return err
	}
	for i, p := range h.Policies {
		if p == nil {
			return fmt.Errorf("policies[%d]: null; write a policy with a limit and a window, or leave it out", i)
		}
		if err := p.check(); err != nil {
			return err
		}
	}
	return h.checkRepeated()
}

// checkRepeated refuses a policy that stands several times in a handler, where one of them has an option
// that cannot hold for a part: they are decided and charged as one.
func (h *Handler) checkRepeated() error {
	times, depends := map[string]int{}, map[string]string{}
	for _, p := range h.Policies {
		times[p.Name]++
		switch {
		case p.CountIf != nil:
			depends[p.Name] = "count_if"
		case p.CostFrom != "":
			depends[p.Name] = "cost"
		case p.Enforce != nil:
			depends[p.Name] = "enforce"
		case len(p.Notify) > 0:
			depends[p.Name] = "notify"
		case p.Challenge != nil:
			depends[p.Name] = "challenge"
		case p.Reserve != "":
			depends[p.Name] = "reserve"
		}
		if option := depends[p.Name]; option != "" && times[p.Name] > 1 {
			fix := "write one block, or give them different names"
			if option == "reserve" {
				fix = "write one block, or two directives that each match some of the requests"
			}
			return fmt.Errorf("policy %q: stands several times in this handler, and one has %s; %s", p.Name, option, fix)
		}
	}
	return nil
}

// Validate refuses values that no request could be served with. Defaults must be set.
func (h *Handler) Validate() error {
	if _, err := rule.ParseExempt(h.Exempt); err != nil {
		return err
	}
	if _, err := quotaheader.ParseFormats(h.Headers); err != nil {
		return err
	}
	if _, err := gate.ParseUsagePath(h.Usage); err != nil {
		return err
	}
	switch {
	case h.RetryJitter < 0 || time.Duration(h.RetryJitter) > maxRetryJitter:
		return fmt.Errorf("retry_jitter %v: use %s", time.Duration(h.RetryJitter), retryJitterBounds)
	case h.FailMode != "" && !slices.Contains(failover.FailModes(), h.FailMode):
		return fmt.Errorf("fail_mode %q: use local, open or closed", secretfile.Redact(h.FailMode))
	case h.Status < 400 || h.Status > 599:
		return fmt.Errorf("status %d: use a number from 400 to 599", h.Status)
	}
	return nil
}
