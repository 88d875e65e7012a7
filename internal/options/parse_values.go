package options

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/secretfile"
)

// parseCount reads the matchers of count.
func (p *optionParser) parseCount(policy *Policy) (err error) {
	policy.Count, err = p.parseMatchers()
	return err
}

// checkCountWords refuses what count takes for a matcher and is another option.
func checkCountWords(d *caddyfile.Dispenser, segment caddyfile.Segment) error {
	var words []string
	for _, token := range segment[1:] {
		words = append(words, token.Text)
	}
	text := strings.Join(words, " ")
	switch _, err := strconv.ParseUint(text, 10, 63); {
	case len(words) > 0 && words[0] == "status":
		return d.Errf("count %s: that is a response; write count_if %[1]s", text)
	case err == nil:
		return d.Errf("count %s: count takes a matcher; how many requests pass is limit %[1]s", text)
	}
	return nil
}

// parseMatchers reads an option with the name of a matcher of the site, with one matcher, or with a block of them.
func (p *optionParser) parseMatchers() (sets caddyhttp.RawMatcherSets, err error) {
	var set caddy.ModuleMap
	option := p.Val()
	segment := p.NextSegment()
	d := caddyfile.NewDispenser(segment)
	d.Next()
	name := ""
	if len(segment) > 1 {
		name = segment[1].Text
	}
	if option == "count" {
		if err := checkCountWords(d, segment); err != nil {
			return nil, err
		}
	}
	switch {
	case strings.HasPrefix(name, "@") && len(segment) == 2:
		if set, _, err = p.helper.WithDispenser(d).MatcherToken(); err != nil {
			err = p.Errf("%s %s: %v; define it in this site, such as %[2]s path /api/*", option, name, err)
		}
	case strings.HasPrefix(name, "/"), strings.HasPrefix(name, "*"):
		return nil, d.Errf("%s %s: a matcher has its name in front, such as %[1]s path %[2]s", option, name)
	case name == "", name[0] == '@', name == "{" && len(segment) == 3:
		if option == "count" {
			return nil, d.Err("count: takes a matcher such as path /.env, @name or a block")
		}
		return nil, d.Err("match takes a matcher such as path /api/*, a named matcher such as @api, or a block of matchers")
	default:
		if err = p.checkMatcherNames(segment); err == nil {
			set, err = caddyhttp.ParseCaddyfileNestedMatcherSet(d)
		}
	}
	if err == nil && strings.HasPrefix(name, "@") {
		if err = checkNamedMatcher(name, set); err != nil {
			err = d.WrapErr(err)
		}
	}
	return caddyhttp.RawMatcherSets{set}, err
}

// parseCountIf reads a response matcher, in a line or in a block.
func (p *optionParser) parseCountIf(policy *Policy) error {
	policy.CountIf = new(caddyhttp.ResponseMatcher)
	for nesting := p.Nesting(); p.NextArg() || p.NextBlock(nesting); {
		var err error
		switch word := p.Val(); word {
		case "status":
			err = p.parseCountedStatus(policy.CountIf)
		case "header":
			err = p.parseCountedHeader(policy.CountIf)
		default:
			err = p.Errf("count_if %s: use a response matcher such as status 401 403, or header X-Failed *", word)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *optionParser) parseCountedStatus(counts *caddyhttp.ResponseMatcher) error {
	texts := p.RemainingArgs()
	if len(texts) == 0 {
		return p.Err("count_if: status: missing; use codes such as 401 or classes such as 4xx")
	}
	for _, text := range texts {
		digits := text
		if len(text) == 3 {
			digits = strings.TrimSuffix(text, "xx")
		}
		status, err := strconv.ParseUint(digits, 10, 16)
		if err != nil || !isCountedStatus(int(status)) {
			return p.Errf("count_if: status %s: use codes such as 401 or classes such as 4xx", text)
		}
		counts.StatusCode = append(counts.StatusCode, int(status))
	}
	return nil
}

func (p *optionParser) parseCountedHeader(counts *caddyhttp.ResponseMatcher) error {
	args := p.RemainingArgs()
	if counts.Headers == nil {
		counts.Headers = http.Header{}
	}
	switch {
	case len(args) == 2 && args[0] != "" && args[0][0] != '!':
		counts.Headers.Add(args[0], args[1])
	case len(args) == 1 && len(args[0]) > 1 && args[0][0] == '!':
		counts.Headers[args[0][1:]] = nil
	default:
		return p.Errf("count_if: header %s: use a name and a value such as header X-Failed *, "+
			"or a name that must be missing such as "+
			"header !X-Failed", strings.Join(args, " "))
	}
	return nil
}

// windowBounds says what a window may be.
const windowBounds = "a duration above zero and below 142 years such as 500ms, 1m, 24h or 7d, " +
	"or a calendar period: day, week, month or year"

// parseWindow reads a duration, or a calendar period and its time zone.
func (p *optionParser) parseWindow(policy *Policy) error {
	args, err := policy.cutDayFrom(p.RemainingArgs())
	if err != nil {
		return p.WrapErr(err)
	}
	if len(args) == 2 && !isPeriod(args[0]) && DurationMeant(args[0]+args[1]) != "" {
		return p.Errf("window %s %s: a duration has no space; write window %s", args[0], args[1], DurationMeant(args[0]+args[1]))
	}
	if len(args) == 0 || len(args) > 2 || (len(args) == 2 && !isPeriod(args[0])) || p.NextBlock(p.Nesting()) {
		return p.Errf("window takes one value, %s; behind a calendar period there may be its time zone, "+
			"such as window month "+
			"Europe/Berlin", windowBounds)
	}
	if err := p.setWindow(policy, args[0]); err != nil {
		return err
	}
	if len(args) == 1 {
		return nil
	}
	if policy.TimeZone = args[1]; policy.TimeZone == "" {
		return p.Err("window: the time zone is empty; use a name such as Europe/Berlin, or leave it out for UTC")
	}
	if _, err := policy.location(); err != nil {
		return p.WrapErr(err)
	}
	return nil
}

// setWindow sets a duration or a calendar period. The bounds of the window are checked with the policy.
func (p *optionParser) setWindow(policy *Policy, value string) (err error) {
	if isPeriod(value) {
		policy.Calendar, policy.CalendarStart, _ = strings.Cut(value, startMark)
		if _, err = policy.cutDayFrom([]string{value}); err == nil {
			err = checkPeriod(value)
		}
		if err != nil {
			err = p.WrapErr(err)
		}
		return err
	}
	if meant := windowMeant(value); isCalendar(meant) {
		return p.Errf("window %s: use %s; write window %s", value, windowBounds, meant)
	}
	policy.Window, err = Duration(p.Dispenser, "window", value, 1, windowBounds)
	return err
}

// parseBody reads the largest size of a body, and the time for it.
func (p *optionParser) parseBody() (*Body, error) {
	args := p.RemainingArgs()
	if len(args) == 0 || len(args) > 2 || p.NextBlock(p.Nesting()) {
		return nil, p.Errf("body takes %s, and perhaps %s", bodySizeBounds, bodyTimeoutBounds)
	}
	if _, err := rule.ParseSize(args[0]); err != nil {
		if _, err := rule.ParseSize(args[len(args)-1]); err == nil {
			return nil, p.Errf("body: the size stands first; write body %s <duration>", args[1])
		}
		return nil, p.Errf("body takes %s, of what is read of requests; a denial gets its body by answer, or by handle_errors", bodySizeBounds)
	}
	b := new(Body)
	var err error
	if b.MaxSize, err = SizeWithin(p.Dispenser, "body", args[0], 1, maxBodySize, bodySizeBounds); err != nil || len(args) == 1 {
		return b, err
	}
	b.Timeout, err = durationWithin(p.Dispenser, "body "+args[0], args[1], maxBodyTimeout, bodyTimeoutBounds)
	return b, err
}

// SizeWithin reads a size from least to most. The bounds say what would be right.
func SizeWithin(d *caddyfile.Dispenser, option, value string, least, most int64, bounds string) (int64, error) {
	size, err := rule.ParseSize(value)
	if err == nil && least <= size && size <= most {
		return size, nil
	}
	return 0, d.Errf("%s %s: use %s", option, secretfile.Redact(value), bounds)
}

// durationWithin reads a duration above 0, up to the most. The bounds say what would be right.
func durationWithin(d *caddyfile.Dispenser, option, value string, most time.Duration, bounds string) (caddy.Duration, error) {
	duration, err := Duration(d, option, value, 0, bounds)
	if err == nil && (duration == 0 || time.Duration(duration) > most) {
		err = d.Errf("%s %s: use %s", option, value, bounds)
	}
	return duration, err
}

// numberOrSize reads a number from 1, or a size if the option may count bytes.
func (p *optionParser) numberOrSize(policy *Policy, option, value string) (int64, error) {
	size, err := rule.ParseSize(value)
	if err != nil || size < 1 || option != "limit" && option != "burst" {
		return p.wholeNumber(option, value)
	}
	p.sizes = append(p.sizes, sizeOption{policy, option, value, *p.Dispenser})
	return size, nil
}

// reserveOf returns a reserve with a size replaced by its bytes.
func (p *optionParser) reserveOf(policy *Policy, value string) string {
	size, err := rule.ParseSize(value)
	if err != nil {
		return value
	}
	p.sizes = append(p.sizes, sizeOption{policy, "reserve", value, *p.Dispenser})
	return strconv.FormatInt(size, 10)
}

// checkSizes refuses sizes of policies that do not count bytes.
func (p *optionParser) checkSizes() error {
	for _, s := range p.sizes {
		if s.policy.CostFrom != rule.ResponseBytes {
			return s.at.Errf("%s %s: this policy counts no bytes; write cost %s in it, or a number without a unit",
				s.option, s.text, rule.ResponseBytes)
		}
	}
	return nil
}

// checkOneKey refuses a key of several words.
func (p *optionParser) checkOneKey() error {
	ahead := *p.Dispenser
	args := ahead.RemainingArgs()
	if len(args) < 2 {
		return nil
	}
	return p.Errf("key takes one value, got %d; join them without spaces: write key %s", len(args), rule.ShortNames(strings.Join(args, ":")))
}
