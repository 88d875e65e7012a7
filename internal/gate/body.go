package gate

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/requestbody"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// BodyReading is what one limiter reads of a request's body. It implements [rule.Body]. [Limiter.BeginBody] makes one.
type BodyReading struct {
	limiter *Limiter
	writer  http.ResponseWriter
	request *http.Request

	body   *requestbody.Body          // that was read; nil: no body was
	values *bodyvalue.Values          // nil: the body has not been read so far
	err    error                      // why it could not be read
	failed error                      // err, if a placeholder was asked for since the rules asked last
	unread bodyvalue.UnreadableReason // why a placeholder had no value, since then
	open   bool                       // a placeholder may have the body read
}

// bodyReadings are the readings of all limiters that a request meets, in their order. The readings provide the placeholders of the body.
// With the reading of the first limiter, which most requests have alone, they are one piece of memory.
type bodyReadings struct {
	all   []*BodyReading
	first BodyReading
	space [1]*BodyReading
}

// bodyVar is the request variable that holds the readings.
const bodyVar = "redis_ratelimit.body"

// BeginBody has the body's placeholders read a request's body when one of them is asked for, until [BodyReading.End].
// [BodyReading.GiveBack] has to follow.
func (l *Limiter) BeginBody(w http.ResponseWriter, r *http.Request, repl *caddy.Replacer) *BodyReading {
	readings, known := caddyhttp.GetVar(r.Context(), bodyVar).(*bodyReadings)
	var b *BodyReading
	if known {
		b = new(BodyReading)
		readings.all = append(readings.all, b)
	} else {
		readings = new(bodyReadings)
		b = &readings.first
		readings.space[0] = b
		readings.all = readings.space[:]
		caddyhttp.SetVar(r.Context(), bodyVar, readings)
		repl.Map(readings.placeholder)
	}
	*b = BodyReading{limiter: l, writer: w, request: r, open: true}
	return b
}

// IsAbsent reports whether the request has no body.
func (b *BodyReading) IsAbsent() bool { return !requestbody.MayHave(b.request) }

// End ends the time in which placeholders have the body read. What was read stays known, cut to what logs and headers may
// have: the process does not account for it.
func (b *BodyReading) End() {
	b.open = false
	if b.values != nil {
		b.values.Cut(shownLen)
	}
}

// GiveBack has what no handler has read of the body given back with the request. It is called when the handlers behind have
// returned.
func (b *BodyReading) GiveBack() { b.body.EndWith(b.request.Context()) }

// shownLen is how many bytes of a value its placeholder has for other handlers.
const shownLen = 4 << 10

// placeholder returns the value of a placeholder of the body: for the rules of the limiter that asks, and afterwards what
// was read. It is empty if nothing was.
func (a *bodyReadings) placeholder(name string) (any, bool) {
	if !bodyvalue.IsPlaceholder(name) {
		return nil, false
	}
	for i := len(a.all) - 1; i >= 0; i-- {
		b := a.all[i]
		number, planned := b.limiter.Rules.BodyPlan.Number(name)
		switch {
		case !planned:
		case b.open:
			return b.exact(number), true
		case b.values != nil:
			return b.values.Value(number).Text(), true
		}
	}
	return "", true
}

// exact returns the text of a value as matchers compare it, and keeps why there is no value.
func (b *BodyReading) exact(number int) string {
	values, err := b.Values()
	if err != nil {
		b.failed = err
		return ""
	}
	v := values.Value(number).Exact()
	if v.Kind() == bodyvalue.KindUnreadable {
		b.unread = v.Reason()
	}
	return v.Text()
}

// Denies implements [rule.Body].
func (b *BodyReading) Denies(checks []limiter.Check) bool { return b.limiter.Stores.Remembered(checks) }

// Unread implements [rule.Body].
func (b *BodyReading) Unread() (bodyvalue.UnreadableReason, error) {
	reason, err := b.unread, b.failed
	b.unread, b.failed = bodyvalue.ReasonNone, nil
	return reason, err
}

// Err implements [rule.Body].
func (b *BodyReading) Err() error {
	if errors.Is(b.err, rule.ErrNoRoom) {
		return nil
	}
	return b.err
}

// Values implements [rule.Body].
func (b *BodyReading) Values() (*bodyvalue.Values, error) {
	if b.values == nil && b.err == nil {
		b.values, b.err = b.read()
	}
	return b.values, b.err
}

var errSlowBody = errors.New("the request's body did not arrive in time")

// read reads the body, if something of it can be a value.
func (b *BodyReading) read() (*bodyvalue.Values, error) {
	l, r, plan := b.limiter, b.request, b.limiter.Rules.BodyPlan
	query := r.URL.RawQuery
	if !requestbody.MayHave(r) {
		return plan.Absent(query), nil
	}
	contentType, reason := plan.TypeOf(r.Header)
	bounds := l.BodyBounds
	if reason != bodyvalue.ReasonNone {
		if !mayBeEmpty(r, reason) {
			return plan.Unread(reason, query), nil
		}
		bounds.Size = 0
	}
	reading := l.Bodies.ReadAhead(b.writer, r, shareOf(r), bounds)
	b.body = reading.Body()
	switch outcome := reading.Result(); outcome {
	case requestbody.Absent:
		return plan.Absent(query), nil
	case requestbody.Whole:
		return plan.Read(contentType, query, reading.Bytes()), nil
	case requestbody.Streamed:
		return plan.Unread(cmp.Or(reason, bodyvalue.ReasonStreamed), query), nil
	case requestbody.Consumed:
		return plan.Unread(cmp.Or(reason, bodyvalue.ReasonConsumed), query), nil
	case requestbody.TooLarge:
		return plan.Unread(cmp.Or(reason, bodyvalue.ReasonSize), query), nil
	case requestbody.NoRoom, requestbody.NoShare:
		return nil, rule.Refuse(outcome.Status(), rule.ErrNoRoom)
	case requestbody.TooSlow:
		return nil, rule.Refuse(outcome.Status(), errSlowBody)
	}
	return nil, bodyError(reading.Err())
}

// mayBeEmpty reports whether a request that has no value, for a reason, may have no body at all, and whether the body's
// first byte may be waited for. By HTTP/3 no request without a length says whether it has one. A request that says what its
// body is, by a method that has bodies, may be a call whose client waits for the answer's header before it sends a byte.
func mayBeEmpty(r *http.Request, reason bodyvalue.UnreadableReason) bool {
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		return r.ContentLength < 0 && reason == bodyvalue.ReasonNoType
	}
	return r.ContentLength < 0
}

// shares shorten the address of a client to the network whose bodies take from one share of the process's memory.
var shares = rule.Prefixes{IPv4: 32, IPv6: 64}

// shareOf returns whose share of the process's memory the body of a request takes from.
func shareOf(r *http.Request) string {
	address, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	return shares.Shorten(address)
}

// bodyError returns the error of a request whose body fails while it is read. No handler behind gets the request: a backend
// may go by the part that has arrived, while the client sees the answer. The error of a handler in front, such as
// request_body for its max_size, is that of the request.
func bodyError(err error) error {
	if coded := (caddyhttp.HandlerError{}); errors.As(err, &coded) {
		return err
	}
	return rule.Refuse(http.StatusBadRequest, err)
}
