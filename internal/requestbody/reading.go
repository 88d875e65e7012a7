package requestbody

import (
	"io"
	"net/http"
	"os"
	"time"
)

// Bounds are what may be read of a body, and by when.
type Bounds struct {
	// Size is the largest body in bytes that is read. Of a larger one at most a byte more is read, and nothing if its length
	// is announced. 0: only whether there is a body at all is found out, which takes nothing of the account.
	Size int

	// Within is the time for it, from the beginning of reading.
	Within time.Duration
}

// maxEmptyReads is how often a body in a row may return neither bytes nor an error, as in package bufio.
const maxEmptyReads = 100

// Read reads the body of a request, of which it replaces r.Body alone: what was read is played back to the handler that reads it
// next. A body that this package has read before is taken up where reading ended, so that a second handler gets what
// the first one got. A body that another handler has put into the request, or around the one of this package, is read
// like any other.
//
// client is whose share of the account the body takes from: the address's prefix. w is the writer of the request's
// response.
//
// Bytes that no handler has read are given back when the request's context ends, as net/http ends it behind the error
// routes. The body fails from then on. The context ends earlier with a client that leaves or closes its side of the
// connection. Without a context that can end, the body must be read to its end or closed.
func (a *Account) Read(w http.ResponseWriter, r *http.Request, client string, bounds Bounds) Reading {
	reading := a.ReadAhead(w, r, client, bounds)
	reading.body.EndWith(r.Context())
	return reading
}

// ReadAhead is [Account.Read] for a caller that calls [Body.EndWith] when its handlers behind have returned. Most have
// read the body to its end by then, so that nothing is left that the request's end has to be waited for.
func (a *Account) ReadAhead(w http.ResponseWriter, r *http.Request, client string, bounds Bounds) Reading {
	if result := resultOfHead(r, int64(bounds.Size)); result != undecided {
		return Reading{result: result}
	}
	b, known := r.Body.(*Body)
	if !known {
		b = &Body{original: r.Body, announced: r.ContentLength, account: a, client: client}
		r.Body = b
	}
	room, result := b.room(bounds.Size)
	if result == undecided {
		result = b.readFrom(w, r, room, bounds)
		if len(r.Trailer) > 0 && result == Whole {
			dropFraming(r.Trailer)
		}
	}
	return b.reading(result)
}

// ReadToNotice reads the body of a request by HTTP/1.1 that has to wait, as [Account.Read] does: net/http notices that a client
// leaves only behind the body's end. No limit needs the body so far, and it is left alone, with the result [NoRoom], where
// its length is unknown, or does not fit into what is left of a quarter of the account. The quarter has the length at once: a
// body that has begun to be read never lacks room. One that this package has read of before is left as it is.
func (a *Account) ReadToNotice(w http.ResponseWriter, r *http.Request, bounds Bounds) Reading {
	if result := resultOfHead(r, int64(bounds.Size)); result != undecided {
		return Reading{result: result}
	}
	if b, known := r.Body.(*Body); known {
		return Reading{body: b, result: Consumed}
	}
	bytes := overhead + r.ContentLength
	if r.ContentLength < 0 || !a.chargeToNotice(bytes) {
		return Reading{result: NoRoom}
	}
	r.Body = &Body{original: r.Body, announced: r.ContentLength, account: a, notices: true, charged: bytes}
	reading := a.ReadAhead(w, r, "", bounds) // not by Read: a frame more may double the stack while a client stalls
	reading.body.EndWith(r.Context())
	return reading
}

// readFrom reads the body until its result is known, or the time is over.
func (b *Body) readFrom(w http.ResponseWriter, r *http.Request, room []byte, bounds Bounds) (result ReadResult) {
	limit := setDeadline(w, r, b.original, bounds.Within)
	defer func() {
		if result == undecided { // the original body panics
			b.EndWith(r.Context())
		}
	}()
	result = b.fill(room, bounds.Size, &limit)
	limit.restore(result)
	return result
}

// fill reads the body until its result is known.
func (b *Body) fill(room []byte, size int, limit *deadline) (result ReadResult) {
	for empty := 0; result == undecided; {
		n, err := b.original.Read(room)
		switch {
		case err == io.EOF:
		case err != nil && limit.endedRead(), err == nil && limit.hasPassed():
			err = os.ErrDeadlineExceeded
		case err != nil || n > 0:
			empty = 0
		default:
			if empty++; empty == maxEmptyReads {
				err = io.ErrNoProgress
			}
		}
		room, result = b.take(n, err, size)
	}
	return result
}
