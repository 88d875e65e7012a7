package rule

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Cost says where the units come from that a request costs in all, which are known after its response. The zero value
// is the weight.
type Cost struct {
	// From is the source as it is configured, a placeholder without its braces. Empty: the weight is the cost.
	From string

	// Fallback is the cost of a complete response that tells no cost.
	Fallback int64

	source costSource // nil: the weight is the cost
}

// costSource reads what a request costs from its response. Each kind of source is a type: bytes, time,
// numbers in a JSON body, tokens of a language model, a placeholder.
type costSource interface {
	// cost returns the units that a response which counts has told so far. Told is false if it has told no units. Final
	// says that the rest of the response cannot change the units.
	cost(q costQuestion) (units int64, told, final bool)
}

// bodySource is a source in the body of the response.
type bodySource interface {
	costSource

	// planned returns the source as a part of the plan by which all bodies of a set are read.
	planned(plan *bodyvalue.NumberPlan) costSource
}

// headerSource is a source in a field of the response's header.
type headerSource interface {
	costSource

	// field returns the name of the field; false: the source is no field of the header.
	field() (name string, ok bool)
}

// costQuestion is what a source may look at.
type costQuestion struct {
	set      *Set
	rule     *Rule
	repl     *caddy.Replacer
	response *Response
	taken    int64 // the units that the request took before
}

// costKinds are the sources that a word of their own begins. Any other source is a placeholder.
var costKinds = map[string]costKind{
	ResponseBytes:             {parse: parseBytes, isAlone: true},
	"{" + ResponseBytes + "}": {parse: parseBytes}, // which refuses the braces
	BackendTime:               {parse: parseTime, isAlone: true},
	"{" + BackendTime + "}":   {parse: parseTime}, // as above
	wordJSON:                  {parse: parseJSON, hasText: true},
	TokensOfModel:             {parse: parseTokens},
	"{" + TokensOfModel + "}": {parse: parseTokens}, // as above
}

// costKind reads the sources of one word.
type costKind struct {
	hasText bool // a text stands behind the word and a space
	isAlone bool // nothing stands behind the source
	parse   func(from string, fallback int64) (costSource, error)
}

// CutCost cuts the words of the option cost, as in a Caddyfile, into the source and the words behind the source. The
// source is empty where a word is missing, or too much.
func CutCost(words []string) (from string, behind []string) {
	if len(words) == 0 {
		return "", nil
	}
	switch kind := costKinds[words[0]]; {
	case kind.hasText && len(words) == 1, kind.isAlone && len(words) > 1:
		return "", nil
	case kind.hasText:
		return words[0] + " " + words[1], words[2:]
	}
	return words[0], words[1:]
}

// ParseCost reads the JSON options cost_from and cost.
func ParseCost(from string, fallback int64) (Cost, error) {
	switch {
	case fallback < 0 || fallback > limiter.MaxCharge:
		return Cost{}, fmt.Errorf("cost %d: use a whole number from 0 to 2^52", fallback)
	case from == "" && fallback != 0:
		return Cost{}, fmt.Errorf("cost %d: say in cost_from what is charged; to charge a number known beforehand use weight", fallback)
	case from == "":
		return Cost{}, nil
	}
	word, _, hasText := strings.Cut(from, " ")
	if kind, found := costKinds[word]; found && kind.hasText == hasText {
		source, err := kind.parse(from, fallback)
		return Cost{From: from, Fallback: fallback, source: source}, err
	}
	if from[0] != '{' {
		return Cost{}, fmt.Errorf("cost %s: use %s, %s, %s, json and a path such as usage.total_tokens, or one placeholder such as "+
			"{http.reverse_proxy.header.X-Tokens-Used}", from, TokensOfModel, ResponseBytes, BackendTime)
	}
	if lines := linesForCost(from, fallback); lines != "" {
		return Cost{}, fmt.Errorf("cost: %s is a value of the request's body, which is known before the response; write %s", ShortNames(from), lines)
	}
	source, err := ParsePlaceholder(wordCost, from)
	return Cost{From: source.Name, Fallback: fallback, source: placeholderCost{source}}, err
}

// ReadsBody reports whether the cost is read from the response's body.
func (c *Cost) ReadsBody() bool {
	_, ok := c.source.(bodySource)
	return ok
}

// Header returns the name of the field in the response's header that the cost is read from.
func (c *Cost) Header() (name string, ok bool) {
	source, ok := c.source.(headerSource)
	if !ok {
		return "", false
	}
	return source.field()
}

// isBytes reports whether the units are bytes, so that limits may be sizes.
func (c *Cost) isBytes() bool { return c.source == bytesCost{} }

// Origin says where a response comes from, as far as its cost depends on that.
type Origin uint8

// The origins. A backend is whatever a reverse_proxy asks, such as a language model.
const (
	FromHandlers  Origin = iota // the handlers behind
	FromNoBackend               // Caddy or this module, and certainly no backend has answered
	FromRefusal                 // a refusal of this module, before which a backend has answered, such as that of forward_auth
	AfterRefusal                // handlers that answer in place of a refusal of this module, such as error routes
)

// Response is what became of a response.
type Response struct {
	// Request is the request that is answered; required.
	Request *http.Request

	// Status and Header are what count_if compares. The header may tell a model's tokens as well. Status 0: there is no
	// status to compare, since nothing was answered or the status has settled the checks already.
	Status int
	Header http.Header

	// Left says that the client left before the response, so that what was taken stays.
	Left bool

	// Origin says where the response comes from.
	Origin Origin

	// Failure says that the status is 400 or above. A failure that tells no cost costs nothing.
	Failure bool

	// Begun says that the response has a header.
	Begun bool

	// Complete says that nothing of the response is missing: its body ends as its form demands, or the handlers
	// returned without an error. Any other response broke off.
	Complete bool

	// Ended says that no more of the response follows.
	Ended bool

	// Bytes is how many bytes of the body were sent.
	Bytes int64

	// BackendTime is how long a backend has worked for the response; 0: no backend was asked, or no rule's cost is that time.
	BackendTime time.Duration

	// Body has the numbers that were read from the body. Nil: no body was read.
	Body *bodyvalue.NumberReader

	// Input is how many tokens the request of a call to a language model has, where the weight is an estimate of them.
	// Default: 0.
	Input int64
}

// Counts reports whether count_if counts a response, for a request that took units before. Without a status to compare what was
// taken stays.
func (r *Rule) Counts(response *Response) bool {
	return r.CountIf == nil || response.Status == 0 || response.Left || r.CountIf.Match(response.Status, response.Header)
}

// CountsLook reports whether count_if counts a response, for a request that looked before. What was not answered taught the client
// nothing. An answer counts whether or not the client seems to have left: one that closes its half of a connection reads on.
func (r *Rule) CountsLook(response *Response) bool {
	return response.Status != 0 && r.CountIf.Match(response.Status, response.Header)
}

// CostOf returns how many units a request is charged in all for a rule, from 0 to 2^52, by its response. The request
// has taken some units before, taken. Told is false if the fallback replaces a cost that the response should tell.
//
//	the first of these that holds                      units
//	count_if does not match                            0
//	it has no cost                                     what was taken
//	it comes from this module or Caddy, no backend     0
//	this module refused it after another backend       what was taken
//	others answered a refusal, and tell no cost        what was taken
//	response_bytes, once it has a header               the bytes sent
//	backend_time                                       the milliseconds
//	it broke off                                       the largest of what it told, the fallback and what was taken
//	it is complete and tells a cost                    that cost
//	it is complete and its status is 400 or above      0
//	it is complete                                     the fallback
//
// A weight of 1 is never given back, unless count_if does not match.
func (s *Set) CostOf(rule *Rule, repl *caddy.Replacer, response *Response, taken int64) (units int64, told bool) {
	switch {
	case !rule.Counts(response):
		return 0, true
	case rule.Cost.From == "" || response.Origin == FromRefusal:
		return taken, true
	case response.Origin == FromNoBackend:
		told = true
	default:
		units, told = s.responseCost(rule, repl, response, taken)
	}
	if !rule.estimates() {
		units = max(units, taken)
	}
	return units, told
}

// responseCost returns the cost by a response that counts.
func (s *Set) responseCost(rule *Rule, repl *caddy.Replacer, response *Response, taken int64) (units int64, told bool) {
	units, told, final := rule.Cost.source.cost(costQuestion{s, rule, repl, response, taken})
	switch {
	case !told && response.Origin == AfterRefusal:
		return taken, true
	case !response.Complete && !final:
		units = max(units, rule.Cost.Fallback, taken)
	case !told && response.Failure:
		return 0, true
	case !told:
		units = rule.Cost.Fallback
	}
	return units, told
}

// ReadsResponseHeader reports whether a rule reads fields of the response's header.
func (r *Rule) ReadsResponseHeader() bool {
	return r.NeedsResponseHeader() || r.Cost.source == tokenCost{}
}

// NeedsResponseHeader reports whether a rule needs a field of the response's header, which is not merely one of several
// places where its cost may be.
func (r *Rule) NeedsResponseHeader() bool {
	if r.CountIf != nil && len(r.CountIf.Headers) > 0 {
		return true
	}
	_, ok := r.Cost.Header()
	return ok
}

// Unit returns what clients are told that the rule counts. Its cost is in whatever the site charges, unless it is bytes, and
// the tokens of a call are a cost as well.
func (r *Rule) Unit() limiter.Unit {
	switch {
	case r.Cost.isBytes():
		return limiter.Bytes
	case r.Cost.From != "" || r.Numbers.WeightFrom.field.kind == tokensField:
		return limiter.OtherUnits
	}
	return limiter.Requests
}

// Estimates reports whether the weight is an estimate of the cost, so that a part may be refunded: a weight above 1, or
// from a placeholder.
func Estimates(cost string, weight int64, weightFrom string) bool {
	return cost != "" && (weight > 1 || weightFrom != "")
}

func (r *Rule) estimates() bool {
	return Estimates(r.Cost.From, r.Numbers.Weight, r.Numbers.WeightFrom.Name)
}

// refunds reports whether units that the rule takes may be refunded after the response.
func (r *Rule) refunds() bool { return r.CountIf != nil || r.estimates() }

// AwaitsResponse reports whether the response decides how many units a request is charged.
func (r *Rule) AwaitsResponse() bool { return r.CountIf != nil || r.Cost.From != "" }
