package answer

import (
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
	"unsafe"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// maxRetryAfter is the longest wait that a refusal tells. Timers of node count milliseconds in 31 bits: a client that
// sleeps for longer comes back at once.
const maxRetryAfter = math.MaxInt32 / 1000 * time.Second

// longestSleep is the longest wait for which an SDK should keep its caller waiting.
const longestSleep = time.Minute

// Wait is how long a refused request has to wait: what its headers tell clients, and what is true.
type Wait struct {
	True time.Duration // [limiter.Never]: it cannot pass
	told time.Duration // at most maxRetryAfter
}

// Seconds returns the wait that clients are told, in whole seconds; 0 if they are told none.
func (w Wait) Seconds() int64 { return CeilSeconds(w.told) }

// RefusalValues is memory for what one refusal tells, as [QuotaValues] is for quotas.
type RefusalValues struct {
	list   [2]string // of Cache-Control and Retry-After
	text   [8]byte   // of Retry-After, which has seven digits at most; written once, as strings never change
	denial denial
}

// denial is when a denied request would pass. The zero value is that of a request that is not denied.
type denial struct {
	passesAt time.Duration // since the Unix epoch; [limiter.Never]: never
	longest  time.Duration // the longest wait that the headers tell, above 0
}

// SetRefusal sets the headers of a refusal: no cache may store it, and Retry-After is how many whole seconds the client
// has to wait. All waits get their header here, but for the page that waits
// (internal/challenge), which says 1:
//
//	the wait is          Retry-After
//	[limiter.Never]      absent
//	0                    the jitter, rounded up, or without any 1
//	up to 2,147,483 s    the wait and the jitter, rounded up, at most 2,147,483
//	longer               2,147,483 less the jitter, rounded up
//
// The jitter is a random time up to the given one, so that clients do not all come back at once. The true wait that is
// returned includes it. SDKs that Stainless generates are told not to sleep for more than a minute: they would do so for
// hours, and their callers with them. The headers refer to values, which belong to this refusal alone; nil, or used already:
// new ones.
func SetRefusal(header, request http.Header, retryAfter, jitter time.Duration, values *RefusalValues) (wait Wait) {
	if values == nil || values.list[0] != "" {
		values = new(RefusalValues)
	}
	values.list[0] = "no-store"
	header["Cache-Control"] = values.list[0:1:1]
	wait = Wait{True: limiter.Never}
	if retryAfter != limiter.Never {
		wait = waitOf(retryAfter, jitter)
		text := strconv.AppendInt(values.text[:0], wait.Seconds(), 10)
		values.list[1] = unsafe.String(unsafe.SliceData(text), len(text))
		header[RetryAfter] = values.list[1:2:2]
	}
	if len(request["X-Stainless-Lang"]) > 0 && (wait.told == 0 || wait.told > longestSleep) {
		header[ShouldRetry] = []string{"false"}
	}
	return wait
}

// waitOf returns the wait after which a request is told to come back, with jitter.
func waitOf(retryAfter, jitter time.Duration) Wait {
	var spread time.Duration
	if jitter > 0 {
		spread = rand.N(jitter + 1) //nolint:gosec // spreads clients; nothing depends on it
	}
	wait := Wait{True: later(retryAfter, spread), told: maxRetryAfter - spread}
	if retryAfter <= maxRetryAfter {
		wait.True = min(wait.True, maxRetryAfter)
		if wait.True <= 0 {
			wait.True = time.Second
		}
		wait.told = wait.True
	}
	return wait
}

// Deny has the headers of quotas say when the denied request would pass: after a wait from an instant of this node's
// clock.
func (v *RefusalValues) Deny(now time.Time, wait Wait) {
	v.denial = denial{passesAt: limiter.Never, longest: maxRetryAfter}
	if wait.True != limiter.Never {
		v.denial.passesAt = later(time.Duration(now.UnixNano()), wait.True)
	}
	if wait.True > maxRetryAfter {
		v.denial.longest = wait.told
	}
}
