// Package answer is what clients are told: their quotas in the X-RateLimit-* headers and in those of
// draft-ietf-httpapi-ratelimit-headers-11 ([Quotas]), when to come back ([SetRefusal]), and why a request is refused, in the
// form that its client understands ([Form]). What a form needs to know of a refusal stands in one table, by the cause.
package answer

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Refusal is why a request is refused, and what its client is told.
type Refusal struct {
	Cause     Cause
	Status    int  // of HTTP, where the protocol of a form has none of its own
	IsDefault bool // the configuration writes no status of denials
	Wait      Wait
	Checks    []limiter.Check // of a denial
	Lack      Lack

	// Unwanted says that the client is banned or blocked: nothing more is read of what it sends.
	Unwanted bool
}

// Lack is what a request lacks that weighs more than what is left, so that a lighter one would pass, now or later. The zero value
// is that of any other request, and of one whose client is not shown its quotas.
type Lack struct {
	Left, Capacity, Needed int64

	// Largest is the weight above which a request never passes, if this one weighs more; 0: it does not.
	Largest int64
}

// LackOf returns what a denied request lacks by the check that denies it.
func LackOf(c *limiter.Check) Lack {
	l := Lack{Left: c.Result.Remaining, Capacity: c.Policy.Capacity(), Needed: limiter.Units(c)}
	if limiter.NeverPasses(c) {
		l.Largest = max(0, l.Capacity-limiter.Reserve(c))
	}
	switch {
	case c.Result.Passes(), c.Result.Banned, l.Left < 0, l.Left >= l.Needed:
		return Lack{}
	case l.Left == 0 && l.Largest == 0: // the wait says all
		return Lack{}
	}
	return l
}

// appendSentence appends what would pass, to a line for people. The lack is not the zero value.
func (l Lack) appendSentence(line []byte) []byte {
	line = append(append(append(line, ' '), display.Count(l.Left)...), " of "...)
	line = append(append(line, display.Count(l.Capacity)...), " are left, this request may take "...)
	line = append(append(line, display.Count(l.Needed)...), '.')
	if l.Largest == 0 {
		return line
	}
	line = append(append(line, " The largest one that can pass takes "...), display.Count(l.Largest)...)
	return append(line, '.')
}

// appendMembers appends the numbers to an object of JSON.
func (l Lack) appendMembers(object []byte, before string) []byte {
	if l.Needed == 0 {
		return object
	}
	object = strconv.AppendInt(append(append(object, before...), `"left":`...), l.Left, 10)
	return strconv.AppendInt(append(object, `,"needed":`...), l.Needed, 10)
}

// Cause is what refuses a request.
type Cause int

// The causes. The first three are denials by a policy.
const (
	Limited     Cause = iota // the quota does not suffice
	Crowded                  // too many requests are running
	Banned                   // earlier requests, whatever the quota
	Unavailable              // the store does not decide, with fail_mode closed
	incomplete               // a value is missing, repeated or ambiguous that a rule needs
	tooLarge                 // the body is larger than what is read for a rule
	unsupported              // the body has another type or coding than what is read for a rule
	slow                     // the body has not arrived in time
	early                    // an address is needed from early data
	held                     // this process holds too many requests, by queues, or too much of bodies
	late                     // the request's deadline has passed
	gone                     // the client has left
)

// CauseOfStatus returns the cause of a refusal without a decision, by its status.
func CauseOfStatus(status int) Cause {
	for cause := incomplete; cause < gone; cause++ {
		if causes[cause].status == status {
			return cause
		}
	}
	return gone
}

// isDenial reports whether a policy denies the request.
func (c Cause) isDenial() bool { return c <= Banned }

// isLasting reports whether the same request is refused again, whenever it comes.
func (c Cause) isLasting() bool { return c == incomplete || c == tooLarge || c == unsupported }

// told is what the forms tell of a cause.
type told struct {
	status   int    // of HTTP, unless the option status says otherwise
	sentence string // for people; empty: the client has left

	problem, title string // type and title of RFC 9457
	code, kind     string // "code" and "type" of the errors of web APIs
	registry       string // code of OCI's distribution API
	connect        string // code of Connect
	grpc           int    // code of gRPC
	call           string // message of gRPC and Connect
	rpc            int    // code of JSON-RPC; 0: the status says more than an error under 200 could
}

const (
	problemTypes = "https://iana.org/assignments/http-problem-types#"
	noProblem    = "about:blank" // the status says all (RFC 9457, section 4.2.1)

	tooManySentence = "Too many requests."
	exceededType    = problemTypes + "quota-exceeded"
	exceededTitle   = "Request cannot be satisfied as assigned quota has been exceeded"
	capacityType    = problemTypes + "temporary-reduced-capacity"
	capacityTitle   = "Request cannot be satisfied due to temporary server capacity constraints"
	exceededCode    = "rate_limit_exceeded"
	exceededKind    = "rate_limit_error"
	invalidCode     = "invalid_request"
	invalidKind     = "invalid_request_error"
	registryTooMany = "TOOMANYREQUESTS"
	registryUnknown = "UNKNOWN"
)

// Status codes of gRPC.
const (
	codeCanceled          = 1
	codeInvalidArgument   = 3
	codeDeadlineExceeded  = 4
	codeResourceExhausted = 8
	codeUnimplemented     = 12
	codeUnavailable       = 14
)

// Codes of JSON-RPC, of its range for servers, -32000 to -32099 (specification 2.0, section 5.1). The first is what MCP's own
// servers send for what they refuse. The others are out of the way of codes that have a meaning in MCP (-32002, -32020 to
// -32022, -32042) or inside of its SDKs (-32001 to -32006): the one for Go takes -32004 for its connection's end.
const (
	rpcDenied  = -32000
	rpcLater   = -32010 // the same call may pass later
	rpcInvalid = -32011 // the same call is refused again
)

// causes has what is told, by cause. The problem types are those of draft-ietf-httpapi-ratelimit-headers-11, the codes of
// registries those of the OCI distribution specification 1.1 and, beyond it, of the CNCF's registry. gRPC's and Connect's own
// libraries have resource_exhausted for a message that is too large, and unimplemented for a coding that they do not know.
var causes = [...]told{
	Limited: {
		429, tooManySentence, exceededType, exceededTitle,
		exceededCode, exceededKind, registryTooMany, "resource_exhausted", codeResourceExhausted, "rate limit exceeded", rpcDenied,
	},
	Crowded: {
		429, tooManySentence, exceededType, exceededTitle,
		exceededCode, exceededKind, registryTooMany, "resource_exhausted", codeResourceExhausted, "too many calls are running", rpcDenied,
	},
	Banned: {
		429, tooManySentence, problemTypes + "abnormal-usage-detected", "Request not satisfied due to detection of abnormal request pattern",
		exceededCode, exceededKind, registryTooMany, "resource_exhausted", codeResourceExhausted, "banned for too many calls", rpcDenied,
	},
	Unavailable: {
		503, "The service is unavailable.", capacityType, capacityTitle,
		"service_unavailable", "api_error", "UNAVAILABLE", "unavailable", codeUnavailable, "rate limits are unavailable", rpcLater,
	},
	incomplete: {
		400, "A value that is required is missing, repeated or ambiguous.", noProblem, "Bad Request",
		invalidCode, invalidKind, registryUnknown, "invalid_argument", codeInvalidArgument,
		"a value that rate limits count by is missing, repeated or ambiguous", rpcInvalid,
	},
	tooLarge: {
		413, "The body is too large.", noProblem, "Content Too Large",
		"request_too_large", invalidKind, registryUnknown, "resource_exhausted", codeResourceExhausted,
		"the body is larger than what rate limits read", rpcInvalid,
	},
	unsupported: {
		415, "The type or coding of the body is not supported.", noProblem, "Unsupported Media Type",
		"unsupported_media_type", invalidKind, "UNSUPPORTED", "unimplemented", codeUnimplemented,
		"rate limits do not read bodies of this type or coding", rpcInvalid,
	},
	slow: {
		408, "The body took too long to arrive.", noProblem, "Request Timeout",
		"request_timeout", invalidKind, registryUnknown, "deadline_exceeded", codeDeadlineExceeded, "the body took too long to arrive", rpcLater,
	},
	early: { // browsers send a request in early data again that is refused with this status
		425, "The TLS handshake is not complete. Send the request again.", noProblem, "Too Early",
		"too_early", "api_error", registryUnknown, "unavailable", codeUnavailable, "the handshake is not complete", 0,
	},
	held: {
		503, "The server is busy.", capacityType, capacityTitle,
		"service_unavailable", "api_error", "UNAVAILABLE", "unavailable", codeUnavailable, "no room to hold the call for rate limits", rpcLater,
	},
	late: {
		504, "The request took too long.", noProblem, "Gateway Timeout",
		"timeout", "api_error", registryUnknown, "deadline_exceeded", codeDeadlineExceeded, "the deadline has passed", rpcLater,
	},
	gone: {499, "", noProblem, "", "", "", "", "canceled", codeCanceled, "the client has left", 0},
}

// isRead reports whether the answer is read. A client that has left reads none, but gRPC knows a status for that.
func (r Refusal) isRead() bool { return causes[r.Cause].sentence != "" }

// appendSentence appends one line for people. It names neither policies nor keys.
func (r Refusal) appendSentence(line []byte) []byte {
	line = append(line, causes[r.Cause].sentence...)
	if r.Lack.Needed > 0 {
		line = r.Lack.appendSentence(line)
	}
	if r.Wait.True != 0 && r.Wait.True != limiter.Never {
		line = append(display.AppendWait(append(line, " Try again in "...), r.Wait.True), '.')
	}
	return line
}

// policy returns the name of the policy that denies.
func (r Refusal) policy() string { return r.Checks[limiter.Binding(r.Checks)].Policy.Name() }

// call returns the message of a refused call, which stands in logs where headers do not.
func (r Refusal) call() string {
	text := causes[r.Cause].call
	if !r.Cause.isDenial() {
		return text
	}
	text += ": policy " + r.policy()
	if l := r.Lack; l.Needed > 0 {
		text += ", " + display.Count(l.Left) + " of " + display.Count(l.Capacity) + " left, may take " + display.Count(l.Needed)
		if l.Largest > 0 {
			text += ", the largest that can pass takes " + display.Count(l.Largest)
		}
	}
	if r.Wait.True != limiter.Never {
		text += ", retry in " + strconv.FormatInt(CeilSeconds(r.Wait.True), 10) + " s"
	}
	return text
}

// Request is a request as its client sent it, whatever handlers have made of it since.
type Request struct {
	Method string
	URL    *url.URL
	Header http.Header

	// Call is the call of JSON-RPC in the body. It is read only where [Preference.ReadsCall] says so.
	Call bodyvalue.Call

	// Complete says that the answer is sent as soon as it is written, so that its length has to stand in its header: a client
	// that reads to the end of the connection would wait for that.
	Complete bool
}
