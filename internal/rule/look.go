package rule

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/requestvalue"
)

// This file says which requests look at a quota instead of taking from it. Requests that the option count leaves out look at one
// unit, and that is all. With count_if, requests of which few count look first, and are charged when their response counts:
// otherwise the pictures of one page would refuse each other. That they do for so long as no more of them are on their way on
// a node than in_flight says, which bounds by how many units a quota can be exceeded.

const (
	// DefaultInFlight is how many safe requests by address look at once: a browser may have 250 streams of a connection.
	DefaultInFlight = 256

	// MostInFlight is the largest in_flight.
	MostInFlight = 65536
)

// looking is which requests of a rule with count_if look first.
type looking struct {
	inFlight int64 // units of a key that look at once on a node; 0: all requests take
	onlySafe bool  // requests that may be guesses of a secret take
}

// lookingOf returns which requests look first of a rule whose count_if judges responses. The number is the value of in_flight; nil: the
// default, by whether keys have the client's address alone.
func lookingOf(inFlight *int64, byAddress bool) looking {
	switch {
	case inFlight != nil:
		return looking{inFlight: *inFlight}
	case byAddress:
		return looking{inFlight: DefaultInFlight, onlySafe: true}
	}
	return looking{}
}

// first makes a check that takes a check that looks first, if its request is one that looks.
func (l looking) first(c *limiter.Check, r *http.Request) {
	if l.inFlight > 0 && (!l.onlySafe || isSafe(r)) {
		c.Look, c.InFlight, c.Refundable = true, l.inFlight, false
	}
}

// onlyLook makes a check one that looks at a unit.
func onlyLook(c *limiter.Check) {
	c.Look, c.Weight, c.Refundable, c.Charges, c.Unit = true, 1, false, false, limiter.Requests
}

// OnlyLooks reports whether a check looks at a quota and is not charged for its response either.
func OnlyLooks(c *limiter.Check) bool { return c.Look && c.InFlight == 0 }

// isSafe reports whether a request changes nothing, by the method that the client sent too, and guesses no credential. Requests of a
// log have no method beside their own.
func isSafe(r *http.Request) bool {
	original, _ := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request)
	if original.Method != "" && !isSafeMethod(original.Method) {
		return false
	}
	if !isSafeMethod(r.Method) || len(r.Header["Proxy-Authorization"]) > 0 || len(r.Header["Authorization"]) > 0 {
		return false
	}
	if r.URL.RawQuery == "" && len(r.Header["X-Api-Key"]) == 0 {
		return true
	}
	return requestvalue.Credential(r.Header, r.URL.RawQuery, nil).Kind() == bodyvalue.KindAbsent
}

func isSafeMethod(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}
