package rule

import (
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/usagebody"
)

// ResponseBytes is the source of a cost that stands for the length of the response's body.
const ResponseBytes = "response_bytes"

// WordJSON begins a source that stands for numbers in the response's body.
const WordJSON = "json"

const prefixJSON = WordJSON + " "

// wordCost is the option.
const wordCost = "cost"

// Cost is the source of the units that a request costs in all, known after its response. The zero value is the
// weight.
type Cost struct {
	// From is [ResponseBytes], [WordJSON] with a sum of numbers behind it, or the name of a placeholder
	// without braces.
	From string

	// Fallback is the cost if the response has none: the placeholder is empty or no whole number from 0
	// to 2^52, or the body has no such numbers.
	Fallback int64

	source Placeholder
	body   usagebody.Sum
	prices []Placeholder // that factors of the sum come from
	number int           // of the sum, in the set's plan
}

// ReadsBody reports whether the cost is read from the response's body.
func (c *Cost) ReadsBody() bool { return strings.HasPrefix(c.From, prefixJSON) }

// Response is what became of a response.
type Response struct {
	// Request is what it answers; required.
	Request *http.Request

	// Status and Header are what count_if judges by. 0: nothing is judged, and all count.
	Status int
	Header http.Header

	// Refused says that another handler of this module refused the request.
	Refused bool

	// Unreached says that the request certainly reached no backend.
	Unreached bool

	// Failure says that its status is from 400 on: where such a response tells no cost, it costs nothing.
	Failure bool

	// Begun says that it has a header.
	Begun bool

	// Complete says that nothing of it is missing: its body says so itself, or the handlers wrote it without an
	// error. Any other broke off.
	Complete bool

	// Ended says that nothing more of it comes.
	Ended bool

	// Bytes is the length of the body, as far as it was sent.
	Bytes int64

	// Body has the numbers of the body, which has ended. Nil: there is no body to read.
	Body *usagebody.Body
}

// ParseCost reads what cost_from and cost say.
func ParseCost(from string, fallback int64) (Cost, error) {
	switch {
	case fallback < 0 || fallback > limiter.MaxCharge:
		return Cost{}, fmt.Errorf("cost %d: use a whole number from 0 to 2^52", fallback)
	case from == "" && fallback != 0:
		return Cost{}, fmt.Errorf("cost %d: say in cost_from what is charged; to charge a number known beforehand use weight", fallback)
	case from == "":
		return Cost{}, nil
	case from == ResponseBytes && fallback == 0:
		return Cost{From: from}, nil
	}
	if strings.Trim(from, "{}") == ResponseBytes {
		return Cost{}, fmt.Errorf("cost %s %d: %[1]s is always known and takes no fallback; write it without braces and number", from, fallback)
	}
	if sum, ok := strings.CutPrefix(from, prefixJSON); ok {
		cost := Cost{From: from, Fallback: fallback}
		err := cost.parseSum(sum)
		return cost, err
	}
	source, err := ParsePlaceholder(wordCost, from)
	return Cost{From: source.Name, Fallback: fallback, source: source}, err
}

// parseSum reads what is behind [WordJSON].
func (c *Cost) parseSum(text string) (err error) {
	if c.body, err = usagebody.ParseSum(text); err != nil {
		return fmt.Errorf("cost %s: %w", c.From, err)
	}
	for _, factor := range c.body.Placeholders() {
		price, err := ParsePlaceholder(wordCost, factor)
		if err != nil {
			return err
		}
		c.prices = append(c.prices, price)
	}
	return nil
}

// Counts reports whether count_if counts a response.
func (r *Rule) Counts(response *Response) bool {
	return r.CountIf == nil || response.Status == 0 || r.CountIf.Match(response.Status, response.Header)
}

// CostOf returns the units that a request is charged in all for a rule, from 0 to 2^52, by its response. It took
// some of them before. Told is false if the fallback takes the place of a cost that the response should tell.
//
//	the first of these that holds                      units
//	count_if does not match                            0
//	this module refused the request further in         what was taken
//	it reached no backend                              0
//	response_bytes, once it has a header               the bytes sent
//	it broke off                                       the largest of what it told, the fallback and what was taken
//	it is complete and tells a cost                    that
//	it is complete and its status is from 400 on       0
//	it is complete                                     the fallback
//
// A weight of 1 is never given back, unless count_if does not match.
func (s *Set) CostOf(rule *Rule, repl *caddy.Replacer, response *Response, taken int64) (units int64, told bool) {
	switch {
	case !rule.Counts(response):
		return 0, true
	case rule.Cost.From == "" || response.Refused:
		return taken, true
	}
	if told = response.Unreached; !told {
		units, told = s.responseCost(rule, repl, response, taken)
	}
	if !rule.estimates() {
		units = max(units, taken)
	}
	return units, told
}

// responseCost returns the cost by a response that counts. A header tells it completely.
func (s *Set) responseCost(rule *Rule, repl *caddy.Replacer, response *Response, taken int64) (units int64, told bool) {
	cost, complete := &rule.Cost, response.Complete
	switch {
	case cost.From == ResponseBytes && response.Begun:
		return min(response.Bytes, limiter.MaxCharge), true
	case cost.From == ResponseBytes:
		return taken, true
	case cost.ReadsBody():
		units, told = s.bodyCost(rule, repl, response)
	default:
		units, told = s.headerCost(rule, repl, response)
		complete = complete || told && response.Begun
	}
	switch {
	case !complete:
		units = max(units, cost.Fallback, taken)
	case !told && response.Failure:
		return 0, true
	case !told:
		units = cost.Fallback
	}
	return units, told
}

// headerCost returns the cost that a placeholder has. Units are not earned by a number below zero.
func (s *Set) headerCost(rule *Rule, repl *caddy.Replacer, response *Response) (units int64, told bool) {
	cost := &rule.Cost
	text, err := s.valueOf(rule, wordCost, &cost.source, response.Request, repl)
	if text == "" && err == nil && response.Complete && !response.Failure {
		err = fmt.Errorf("{%s} is empty", cost.From)
	}
	return s.parse(rule, wordCost, &cost.source, text, err, 0, limiter.MaxCharge)
}

// bodyCost returns the cost that a body has. What misses in a body that broke off, or in one that tells of a failure,
// is no fault of the configuration.
func (s *Set) bodyCost(rule *Rule, repl *caddy.Replacer, response *Response) (units int64, told bool) {
	if response.Body == nil {
		return 0, false
	}
	cost := &rule.Cost
	n, err := response.Body.Sum(cost.number, func(i int) (usagebody.Factor, error) {
		return s.factorOf(rule, &cost.prices[i], repl, response.Request)
	})
	missing := errors.Is(err, usagebody.ErrAbsent) || errors.Is(err, usagebody.ErrInvalid)
	if err != nil && !response.Failure && (response.Complete || !missing) {
		s.warn(rule, wordCost, fmt.Errorf("%s: %w", cost.From, err))
	}
	return n, err == nil
}

// factorOf returns the factor of a cost's sum that a placeholder has.
func (s *Set) factorOf(rule *Rule, from *Placeholder, repl *caddy.Replacer, r *http.Request) (usagebody.Factor, error) {
	text, err := s.valueOf(rule, wordCost, from, r, repl)
	if err != nil {
		return 0, err
	}
	factor, ok := usagebody.ParseFactor(text)
	if !ok {
		return 0, fmt.Errorf("{%s} is no decimal of at most 6 places from 0 to 1000000", from.Name)
	}
	return factor, nil
}

// NewBody returns the reader of a response's body with a header, for the rules whose costs are in bodies.
func (s *Set) NewBody(header http.Header) *usagebody.Body { return s.bodies.NewBody(header) }

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
	_, ok := r.Cost.Header()
	return ok
}

// Estimates reports whether a weight, or one from a placeholder, is an estimate of a cost, which may be refunded.
func Estimates(cost string, weight int64, weightFrom string) bool {
	return cost != "" && (weight > 1 || weightFrom != "")
}

func (r *Rule) estimates() bool {
	return Estimates(r.Cost.From, r.Numbers.Weight, r.Numbers.WeightFrom.Name)
}

// Refunds reports whether what the rule takes may be refunded after the response.
func (r *Rule) Refunds() bool { return r.CountIf != nil || r.estimates() }

// AwaitsResponse reports whether the response decides what a request is charged in all.
func (r *Rule) AwaitsResponse() bool { return r.CountIf != nil || r.Cost.From != "" }
