package redisratelimit

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // nodes of one build have the same zones where machines have no table

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddyfileopt"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/refusal"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/secretfile"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/waiting"
)

// handlerSettings are the parsed options of a handler that are texts in JSON.
type handlerSettings struct {
	exempt  []netip.Prefix
	headers quotaheader.Formats
	usage   gate.UsagePath
}

// check refuses options with which no request could be served, and keeps the parsed ones. Defaults must be set.
func (h *Handler) check() (err error) {
	if err := h.checkPolicies(); err != nil {
		return err
	}
	if h.settings.exempt, err = rule.ParseExempt(h.Exempt); err != nil {
		return err
	}
	if h.settings.headers, err = quotaheader.ParseFormats(h.Headers); err != nil {
		return err
	}
	if h.settings.usage, err = gate.ParseUsagePath(h.Usage); err != nil {
		return err
	}
	if err := h.Body.check(); err != nil {
		return err
	}
	switch {
	case !h.Answer.IsKnown():
		return fmt.Errorf("answer %q: use %s", secretfile.Redact(h.Answer), refusal.AnswersHint())
	case h.RetryJitter < 0 || time.Duration(h.RetryJitter) > maxRetryJitter:
		return fmt.Errorf("retry_jitter %v: use %s", time.Duration(h.RetryJitter), retryJitterBounds)
	case h.FailMode != "" && !slices.Contains(limiter.FailModes(), h.FailMode):
		return fmt.Errorf("fail_mode %q: use local, open or closed", secretfile.Redact(h.FailMode))
	case h.Status < 400 || h.Status > 599:
		return fmt.Errorf("status %d: use a number from 400 to 599", h.Status)
	}
	return nil
}

// checkPolicies refuses a handler without policies, and invalid policies. Defaults must be set.
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

// checkRepeated refuses policies of a handler that exclude each other.
func (h *Handler) checkRepeated() error {
	if len(h.Policies) > 1 && slices.ContainsFunc(h.Policies, func(p *Policy) bool { return p.Wait != nil }) {
		return errWaitsBeside
	}
	var blocks policyBlocks
	for _, p := range h.Policies {
		if err := blocks.add(p); err != nil {
			return err
		}
	}
	return nil
}

var errWaitsBeside = errors.New("wait: other policies of the directive would be charged after the wait; put them into a directive before")

// policyBlocks are the blocks of a handler so far. The zero value has none.
type policyBlocks struct {
	number  int
	waits   bool
	times   map[string]int    // by policy
	depends map[string]string // the option of a policy that cannot apply to one of several blocks alone
}

// add adds a block, and refuses two blocks of one policy if one of them has an option that cannot apply to one block alone:
// a request takes from both blocks by one check. It refuses a wait beside other policies.
func (b *policyBlocks) add(p *Policy) error {
	if b.times == nil {
		b.times, b.depends = map[string]int{}, map[string]string{}
	}
	b.number++
	b.times[p.Name]++
	if b.waits = b.waits || p.Wait != nil; b.waits && b.number > 1 {
		return errWaitsBeside
	}
	if option := optionOfOneBlock(p); option != "" {
		b.depends[p.Name] = option
	}
	option := b.depends[p.Name]
	if option == "" || b.times[p.Name] == 1 {
		return nil
	}
	fix := "write one block, or give them different names"
	if option == "reserve" {
		fix = "write one block, or two directives that each match some of the requests"
	}
	return fmt.Errorf("policy %q: is given several times in this handler, and one has %s; %s", p.Name, option, fix)
}

// optionOfOneBlock returns an option that cannot apply to one of several blocks of a policy alone; empty: none.
func optionOfOneBlock(p *Policy) string {
	switch {
	case p.CountIf != nil:
		return "count_if"
	case p.CostFrom != "":
		return "cost"
	case p.Enforce != nil:
		return "enforce"
	case len(p.Notify) > 0:
		return "notify"
	case p.Challenge != nil:
		return "challenge"
	case p.Reserve != "":
		return "reserve"
	}
	return ""
}

// check refuses invalid options of a policy, and keeps the parsed ones. Defaults must be set.
func (p *Policy) check() error {
	var err error
	switch option, from, n := p.limit(); {
	case p.Wait != nil && !p.countsRunning():
		err = errors.New("wait: needs max_concurrent; requests that wait for a rate use max_delay")
	case n == 0 && !p.Unlimited:
		err = fmt.Errorf("%s: missing; say how many units, from 1", option)
	case p.countsRunning() && (p.Limit != 0 || p.LimitFrom != ""): // the limiter says what is wrong
		err = p.checkTogether()
	case p.Unlimited && from == "":
		err = errors.New("unlimited: needs a placeholder for the requests that are limited, such as limit {http.vars.plan_limit} unlimited")
	case p.Unlimited && n != 0:
		err = fmt.Errorf("%s %d: requests without a limit are unlimited; leave out the number or unlimited", option, n)
	case (p.Algorithm == "" || slices.Contains(limiter.Algorithms(), p.Algorithm)) && p.checkWindow() != nil:
		// If the algorithm is unknown too, the error is about the algorithm, below.
		err = p.checkWindow()
	case p.Weight < 0:
		err = fmt.Errorf("weight %d: use a whole number from 1", p.Weight)
	case p.Ban != nil && len(p.Ban.Durations) == 0:
		err = errors.New("ban: no duration; write one or more, such as ban 30s 5m 1h")
	case p.Lease != 0 && p.CountIf != nil:
		err = errors.New("lease, count_if: units that a node has leased cannot be refunded to single requests; " +
			"leave out lease, or give count_if a policy of its own")
	case p.Lease != 0 && p.CostFrom != "":
		err = errors.New("lease, cost: nodes that have leased would go on without what responses cost; " +
			"leave out lease, or give cost a policy of its own")
	case p.BurstFrom != "" && p.Burst == 0:
		err = errors.New("burst: a placeholder needs a number behind it, for when it is empty")
	default:
		err = cmp.Or(p.checkCommon(), p.checkTogether(), p.checkMatch())
	}
	if err != nil {
		return fmt.Errorf("policy %q: %w", p.Name, err)
	}
	return nil
}

// checkMatch refuses matchers that no request can meet.
func (p *Policy) checkMatch() error {
	for _, set := range p.Match {
		if err := checkMatchers("match", set); err != nil {
			return err
		}
	}
	return nil
}

// checkTogether refuses options that are valid alone but not together. It parses the options that are texts.
func (p *Policy) checkTogether() error {
	s := p.settings()
	s.Refunds = p.countsRunning() && (p.CountIf != nil || p.CostFrom != "") // the limiter's error; others have texts below
	policy, err := limiter.NewPolicy(s)
	if err != nil {
		return p.nameFields(err)
	}
	p.parsed, err = p.parseRule()
	ofBody := p.checkBody()
	switch {
	case p.CountIf != nil && p.MaxDelay != nil:
		return errors.New("max_delay: a queue cannot refund what count_if does not count; use one of them")
	case err != nil:
		return err
	case ofBody != nil:
		return ofBody
	case p.estimates() && p.MaxDelay != nil:
		return errors.New("cost, max_delay: a queue cannot refund what a weight takes too much; leave out max_delay or the weight")
	case p.estimates() && p.Ban != nil:
		return errors.New("cost, ban: a client would be banned for weights that are refunded; " +
			"leave out the weight, or give ban a policy of its own")
	case p.Weight > policy.Capacity() && !p.Unlimited:
		return fmt.Errorf("weight %d: above the capacity of %d, so that no request could ever pass; use at most that",
			p.Weight, policy.Capacity())
	case p.Enforce != nil && p.DryRun:
		return errors.New("enforce, dry_run: a dry run limits no key; leave one of them out")
	}
	if !p.Unlimited {
		err = p.parsed.Reserve.Check(policy, p.Weight, p.isDynamic())
	}
	return cmp.Or(err, checkCountIf(p.CountIf), p.checkChallenge(policy), p.checkWait())
}

// The bounds of waits.
const (
	minWait    = time.Millisecond
	maxWait    = 10 * time.Minute
	waitBounds = "a duration from 1ms to 10m"
)

// checkWait refuses an invalid wait, and options that it excludes.
func (p *Policy) checkWait() error {
	switch w := p.Wait; {
	case w == nil:
		return nil
	case time.Duration(w.Longest) < minWait || time.Duration(w.Longest) > maxWait:
		return fmt.Errorf("wait %v: use %s", time.Duration(w.Longest), waitBounds)
	case w.Most < 1 || w.Most > waiting.MostWaiting:
		return fmt.Errorf("wait: %d waiting; use a number from 1 to %d", w.Most, waiting.MostWaiting)
	case p.Reserve != "":
		return errors.New("wait, reserve: use one of them")
	case p.DryRun:
		return errors.New("wait, dry_run: use one of them")
	}
	return nil
}

// checkBody refuses options about the body that have no effect, as far as the rule has been parsed.
func (p *Policy) checkBody() error {
	switch {
	case p.OnUnread != "" && p.OnUnread != onUnreadRefuse && p.OnUnread != onUnreadPass:
		return fmt.Errorf("on_unread %q: use refuse or pass", secretfile.Redact(p.OnUnread))
	case p.OnUnread != "" && len(p.parsed.MatchBody) == 0:
		return errors.New("on_unread: match asks for no value of the body, such as match vars {json.method} tools/call; leave it out")
	case p.RawKey && !p.parsed.Key.ReadsBody():
		return errors.New("raw_key: the key has no value of the body, such as {json.user} or {form.email}; leave it out")
	}
	return nil
}

// nameFields returns an error of the limiter with the names of this policy's options instead of the limiter's fields.
func (p *Policy) nameFields(err error) error {
	var field *limiter.FieldError
	if errors.As(err, &field) && strings.Contains(field.Field, "Refunds") {
		option := "count_if"
		if p.CountIf == nil {
			option = "cost"
		}
		err = &limiter.FieldError{Field: strings.Replace(field.Field, "Refunds", option, 1), Value: field.Value, Problem: field.Problem}
	}
	return caddyfileopt.NameFields(err)
}

// checkChallenge refuses an invalid challenge, and options that it excludes.
func (p *Policy) checkChallenge(policy *limiter.Policy) error {
	c := p.challenge()
	switch {
	case p.Challenge == nil:
		return nil
	case c.Passes < 1 || c.Passes > rule.MaxPasses:
		return fmt.Errorf("challenge %d: use a number of passes from 1 to %d", c.Passes, rule.MaxPasses)
	case p.Ban != nil:
		return errors.New("challenge, ban: a pass would leave the ban behind; give ban a policy of its own")
	case p.MaxDelay != nil:
		return errors.New("challenge, max_delay: requests that are held are not denied; use one of them")
	case p.countsRunning():
		return errors.New("challenge, max_concurrent: what runs ends without a wait; give max_concurrent a policy of its own")
	case p.parsed.Key.IsFixed():
		return fmt.Errorf("challenge: all clients share the key %s, and so its passes; use a key with a placeholder such as {client_ip}", p.Key)
	case c.Limit != 0 && p.isDynamic():
		return errors.New("challenge: a pass cannot have a limit beside a placeholder for limit or burst; leave the limit of the pass out")
	case c.Limit != 0 && c.Limit < policy.Limit():
		return fmt.Errorf("challenge: a pass of %d would allow less than the limit of %d; use at least that, or leave it out",
			c.Limit, policy.Limit())
	}
	if c.Limit != 0 {
		if _, err := policy.WithLimit(c.Limit, p.Burst); err != nil {
			return fmt.Errorf("challenge: a pass of %d: %w", c.Limit, caddyfileopt.NameFields(err))
		}
	}
	return nil
}

// checkCountIf refuses an empty response matcher, and one that no response matches.
func checkCountIf(counts *caddyhttp.ResponseMatcher) error {
	if counts == nil {
		return nil
	}
	if len(counts.StatusCode) == 0 && len(counts.Headers) == 0 {
		return errors.New("count_if: empty; use a response matcher such as status 401 403, or header X-Failed *")
	}
	for _, status := range counts.StatusCode {
		if !isCountedStatus(status) {
			return fmt.Errorf("count_if: status %d: use codes such as 401, or classes such as 4 for all 4xx", status)
		}
	}
	return nil
}

// isCountedStatus reports whether a number is a status, or the first digit of a class of statuses.
func isCountedStatus(status int) bool {
	return (status >= 1 && status <= 5) || (status >= 100 && status <= 599)
}

// checkWindow refuses a policy without a window, with two, or with a time zone and no calendar.
func (p *Policy) checkWindow() error {
	switch {
	case p.Window == 0 && p.Calendar == "" && !p.countsRunning():
		return errors.New("window: missing or zero; use a duration from 1ms such as 1m, or a calendar period such as month")
	case p.Window != 0 && p.Calendar != "":
		return errors.New("window, calendar: a policy has one of them; leave one out")
	case p.TimeZone != "" && p.Calendar == "":
		return fmt.Errorf("time_zone %s: only a calendar has one; set calendar instead of window, or leave time_zone out",
			secretfile.Redact(p.TimeZone))
	}
	_, err := p.location()
	return err
}
