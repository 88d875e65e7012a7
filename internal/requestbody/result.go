package requestbody

import (
	"net/http"
	"time"
)

// ReadResult is what reading a request's body led to.
type ReadResult uint8

const (
	undecided ReadResult = iota

	// Absent says that the request has no body, or one of no bytes.
	Absent

	// Streamed says that the request may have a body, but one that client and application exchange as it comes: CONNECT, an
	// upgrade to another protocol, or the header Incremental: ?1. It is not read. A client chooses these, and the
	// application may read an ordinary body all the same.
	Streamed

	// Whole says that the body is read to its end.
	Whole

	// TooLarge says that the body has more bytes than may be read.
	TooLarge

	// TooSlow says that the body had not arrived in time, by the bounds or by a timeout of the server. By HTTP/1.1 the request's
	// context has ended, as if the client had left: net/http ends it with any read that fails.
	TooSlow

	// NoRoom says that the process holds as many bytes of bodies as it may.
	NoRoom

	// NoShare says that the process holds as many bytes of this client's bodies as it may of one client.
	NoShare

	// Consumed says that another handler has read of the body, such as the proxy before an error route, and has not put it back.
	Consumed

	// Failed says that reading failed otherwise. The client left, the body's framing is broken, or a handler in front has an error
	// for it, such as request_body for its max_size. A handler behind gets the same error, behind the same bytes unless the
	// request's context has ended.
	Failed
)

// RetryAfter is after what time a client may come again for which there was no room.
const RetryAfter = time.Second

// Status returns the status code of a refusal because of the result: 413, 408, or 503 (RFC 9110, section 15). It is 0
// if the result alone refuses nothing.
func (o ReadResult) Status() int {
	switch o {
	case TooLarge:
		return http.StatusRequestEntityTooLarge
	case TooSlow:
		return http.StatusRequestTimeout
	case NoRoom, NoShare:
		return http.StatusServiceUnavailable
	}
	return 0
}

// Reading is a request's body as far as it was read.
type Reading struct {
	body   *Body // nil: nothing was read
	result ReadResult
	bytes  []byte
	err    error
}

// Result returns what reading led to.
func (r Reading) Result() ReadResult { return r.result }

// Body returns the body that was read; nil: the request's header says that nothing can be read.
func (r Reading) Body() *Body { return r.body }

// Bytes returns the bytes of a body that is [Whole], for any other result nil. They must not be changed. They stay as
// they are, and what keeps them keeps memory that the account no longer counts once the handlers behind have read the
// body: copy values before these are called.
func (r Reading) Bytes() []byte { return r.bytes }

// Err returns the error of a body that [Failed] or was [TooSlow], as a handler gets it that reads the body.
func (r Reading) Err() error { return r.err }
