package rule

import (
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/usagebody"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// ResponseBytes is the source of a cost that stands for the length of the response's body.
const ResponseBytes = "response_bytes"

// WordJSON begins a source that stands for numbers in the response's body.
const WordJSON = "json"

const prefixJSON = WordJSON + " "

// Cost is the source of the units that a request is charged after its response: beyond its weight, or
// instead of it. The zero value charges none.
type Cost struct {
	// From is [ResponseBytes], [WordJSON] with a sum of numbers behind it, or the name of a placeholder
	// without braces.
	From string

	// Fallback is the cost where the response has none: the placeholder is empty or no whole number from 0
	// to 2^52, or the body has no such numbers.
	Fallback int64

	option string // that it was read from
	source Placeholder
	body   usagebody.Sum
	prices []Placeholder // that factors of the sum come from
	number int           // of the sum, in the set's plan
}

// ReadsBody reports whether the cost is read from the response's body.
func (c *Cost) ReadsBody() bool { return strings.HasPrefix(c.From, prefixJSON) }

// ReadsBody reports whether one of the rule's costs is read from the response's body.
func (r *Rule) ReadsBody() bool { return r.Charge.ReadsBody() || r.Settle.ReadsBody() }

// Response is what became of a response.
type Response struct {
	// Request is what it answers; required.
	Request *http.Request

	// Begun says that it has a header.
	Begun bool

	// Complete says that nothing of it is missing: its body says so itself, or the handlers wrote it without an
	// error. Any other broke off.
	Complete bool

	// Bytes is the length of the body, as far as it was sent.
	Bytes int64

	// Body has the numbers of the body, which has ended. Nil: there is no body to read.
	Body *usagebody.Body
}

// ParseCost reads an option's source and fallback: charge_from and charge, or settle_from and settle.
func ParseCost(option, from string, fallback int64) (Cost, error) {
	switch {
	case fallback < 0 || fallback > limiter.MaxCharge:
		return Cost{}, fmt.Errorf("%s %d: use a whole number from 0 to 2^52", option, fallback)
	case from == "" && fallback != 0:
		return Cost{}, fmt.Errorf("%s %d: say in %[1]s_from what is charged; to charge a number known beforehand use weight", option, fallback)
	case from == "":
		return Cost{}, nil
	case from == ResponseBytes && fallback == 0:
		return Cost{From: from, option: option}, nil
	}
	if strings.Trim(from, "{}") == ResponseBytes {
		return Cost{}, fmt.Errorf("%s %s %d: %[2]s is always known and takes no fallback; write it without braces and number", option, from, fallback)
	}
	if sum, ok := strings.CutPrefix(from, prefixJSON); ok {
		cost := Cost{From: from, Fallback: fallback, option: option}
		err := cost.parseSum(sum)
		return cost, err
	}
	source, err := ParsePlaceholder(option, from)
	return Cost{From: source.Name, Fallback: fallback, option: option, source: source}, err
}

// parseSum reads what is behind [WordJSON].
func (c *Cost) parseSum(text string) (err error) {
	if c.body, err = usagebody.ParseSum(text); err != nil {
		return fmt.Errorf("%s %s: %w", c.option, c.From, err)
	}
	for _, factor := range c.body.Placeholders() {
		price, err := ParsePlaceholder(c.option, factor)
		if err != nil {
			return err
		}
		c.prices = append(c.prices, price)
	}
	return nil
}

// CostOf returns the units of a rule's cost for a response, from 0 to 2^52, and whether the response told
// them. One that broke off before it told all costs at least the fallback and a number of units. A header
// tells all, and response_bytes is what was sent.
func (s *Set) CostOf(rule *Rule, cost *Cost, repl *caddy.Replacer, response *Response, least int64) (units int64, told bool) {
	complete := response.Complete
	switch {
	case cost.From == ResponseBytes && response.Begun:
		return response.Bytes, true
	case cost.From == ResponseBytes:
		return least, true
	case cost.ReadsBody():
		units, told = s.bodyCost(rule, cost, repl, response)
	default:
		units, told = s.headerCost(rule, cost, repl, response)
		complete = complete || told && response.Begun
	}
	if !told {
		units = cost.Fallback
	}
	if !complete {
		units = max(units, cost.Fallback, least)
	}
	return units, told
}

// headerCost returns the cost that a placeholder has. Units are not earned by a number below zero.
func (s *Set) headerCost(rule *Rule, cost *Cost, repl *caddy.Replacer, response *Response) (units int64, told bool) {
	text := s.valueOf(rule, cost.option, &cost.source, response.Request, repl)
	if text == "" && response.Complete && !cost.source.field.repeated(response.Request) {
		s.warn(rule, cost.option, fmt.Errorf("{%s} is empty", cost.From))
	}
	n, ok := s.parse(rule, cost.option, &cost.source, text)
	if ok && (n < 0 || n > limiter.MaxCharge) {
		s.warn(rule, cost.option, fmt.Errorf("{%s} is below 0 or above 2^52", cost.From))
		return 0, false
	}
	return n, ok
}

// bodyCost returns the cost that a body has. What misses in a body that broke off is no fault of the
// configuration.
func (s *Set) bodyCost(rule *Rule, cost *Cost, repl *caddy.Replacer, response *Response) (units int64, told bool) {
	if response.Body == nil {
		return 0, false
	}
	n, err := response.Body.Sum(cost.number, func(i int) (usagebody.Factor, error) {
		return s.factorOf(rule, cost, &cost.prices[i], repl, response.Request)
	})
	missing := errors.Is(err, usagebody.ErrAbsent) || errors.Is(err, usagebody.ErrInvalid)
	if err != nil && (response.Complete || !missing) {
		s.warn(rule, cost.option, fmt.Errorf("%s: %w", cost.From, err))
	}
	return n, err == nil
}

// factorOf returns the factor of a cost's sum that a placeholder has.
func (s *Set) factorOf(rule *Rule, cost *Cost, from *Placeholder, repl *caddy.Replacer, r *http.Request) (usagebody.Factor, error) {
	if from.field.repeated(r) {
		return 0, errRepeated
	}
	factor, ok := usagebody.ParseFactor(s.valueOf(rule, cost.option, from, r, repl))
	if !ok {
		return 0, fmt.Errorf("{%s} is no decimal of at most 6 places from 0 to 1000000", from.Name)
	}
	return factor, nil
}

// NewBody returns the reader of a response's body with a header, for the rules whose costs are in bodies.
func (s *Set) NewBody(header http.Header) *usagebody.Body { return s.bodies.NewBody(header) }

// planBody has a cost read from bodies with those of the set's other rules.
func (s *Set) planBody(cost *Cost) {
	if cost.ReadsBody() {
		cost.number = s.bodies.Add(cost.body)
	}
}

// Header returns the response header that the cost is read from. The one that reverse_proxy received keeps
// its name's form.
func (c *Cost) Header() (name string, ok bool) {
	if name, ok = strings.CutPrefix(c.From, "http.reverse_proxy.header."); ok {
		return name, true
	}
	name, ok = strings.CutPrefix(c.From, "http.response.header.")
	return textproto.CanonicalMIMEHeaderKey(name), ok
}

// ReadsResponseHeader reports whether a rule depends on more of the response than its status and size.
func (r *Rule) ReadsResponseHeader() bool {
	if r.CountIf != nil && len(r.CountIf.Headers) > 0 {
		return true
	}
	_, charge := r.Charge.Header()
	_, settle := r.Settle.Header()
	return charge || settle
}

// Refunds reports whether what the rule takes may be refunded after the response.
func (r *Rule) Refunds() bool { return r.CountIf != nil || r.Settle.From != "" }
