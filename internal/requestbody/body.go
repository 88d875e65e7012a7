// Package requestbody reads a request's body for the values in it, and plays it back to the handlers behind: the same
// bytes, the same end, the same trailers. It bounds the size, the time, and the memory that a process and each client's
// address hold of such bodies. It knows neither rules nor formats.
package requestbody

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
)

const (
	// overhead is what a body takes beside its bytes, in bytes.
	overhead = 256

	// smallest is the room for a body's first bytes, if it may be longer.
	smallest = 2 << 10

	// growth is how many times the bytes that have arrived a buffer has room for, if so many may come.
	growth = 4

	// From shrinks on a buffer is left for a smaller one, when no more than its part of growth is left to play back.
	shrinks = 64 << 10
)

// Body is a request's body in place of the original one, of which a part has been read. It plays that part back, and goes
// on with the rest. The server fills the request's trailers in when it has read the original body, whichever handler reads it.
//
// Body is no http.Request.GetBody: a handler that puts another body into the request would leave GetBody as it is, and
// net/http would send the client's body where it repeats a request.
type Body struct {
	original  io.ReadCloser
	announced int64 // length of the original body; -1: unknown

	account *Account
	client  string
	notices bool // it is read only to notice its client leave: the account has its announced length from the beginning

	mu       sync.Mutex
	buffer   []byte  // that was read
	played   int     // bytes of the buffer that were played back
	further  [1]byte // that was read behind a full buffer
	beyond   int     // how many these are, 0 or 1
	arrived  int64   // bytes that were read of the original body before a handler has read of it
	charged  int64   // bytes that the account has for this body
	end      error   // of the original body behind what was read, io.EOF or another one; nil: there may be more
	closed   bool
	consumed bool // a handler has read of it, or has closed it

	// watch ends the wait for the request's end, with which the account gets back what is left. Nil: the account has
	// nothing of this body, [Body.EndWith] was not called so far, or the request has no end.
	watch func() bool
}

// Read plays back what has been read, then the rest of the original body.
func (b *Body) Read(p []byte) (int, error) {
	b.mu.Lock()
	b.consumed = true
	if b.closed {
		defer b.mu.Unlock()
		return 0, b.closedError()
	}
	n := b.play(p)
	left, end := b.unplayed(), b.end
	b.mu.Unlock()
	switch {
	case left > 0:
		return n, nil
	case end != nil: // with the last bytes, as net/http does
		return n, end
	case n > 0:
		return n, nil
	}
	return b.original.Read(p) // without the lock: Close ends a read by HTTP/2 and HTTP/3
}

// closedError returns the error of reading a closed body: that of reading it before, if that failed.
func (b *Body) closedError() error {
	if b.end != nil && b.end != io.EOF { //nolint:errorlint // a wrapped one is no clean end
		return b.end
	}
	return http.ErrBodyReadAfterClose
}

// Close gives back what has not been read, and closes the original body.
func (b *Body) Close() error {
	b.mu.Lock()
	b.consumed = true
	b.mu.Unlock()
	b.discard()
	return b.original.Close()
}

// discard gives back what has not been read, and leaves nothing to read.
func (b *Body) discard() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.free()
}

// EndWith gives back at the request's end what no handler has read by then, and at once if the request has ended. A read
// by HTTP/1.1 that fails, or whose deadline passes, ends it, while error routes may write to a slow client for long. Nil has
// nothing to give back.
func (b *Body) EndWith(request context.Context) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.charged == 0:
	case request.Err() != nil:
		b.closed = true
		b.free()
	case b.watch == nil && request.Done() != nil:
		b.watch = context.AfterFunc(request, b.discard)
	}
}

// unplayed returns how many bytes have been read and not played back.
func (b *Body) unplayed() int { return len(b.buffer) - b.played + b.beyond }

// play plays back bytes, and gives up their memory.
func (b *Body) play(p []byte) (n int) {
	n = copy(p, b.buffer[b.played:])
	b.played += n
	if b.beyond > 0 && n < len(p) && b.played == len(b.buffer) {
		p[n] = b.further[0]
		b.beyond = 0
		n++
	}
	switch left := b.unplayed(); {
	case n == 0:
	case left == 0:
		b.free()
	case cap(b.buffer) >= shrinks && left <= cap(b.buffer)/growth:
		b.move(left)
	}
	return n
}

// free gives back everything.
func (b *Body) free() {
	b.buffer, b.played, b.beyond = nil, 0, 0
	if b.charged > 0 {
		b.giveBack(b.charged)
	}
	if b.watch != nil {
		b.watch()
		b.watch = nil
	}
}

// move moves what has not been played back to a smaller buffer of that size.
func (b *Body) move(size int) {
	less := int64(cap(b.buffer) - size)
	b.copyTo(make([]byte, 0, size))
	b.giveBack(less)
}

// giveBack gives back bytes that the account has for this body.
func (b *Body) giveBack(bytes int64) {
	b.charged -= bytes
	if b.notices {
		b.account.giveBackOfNotice(bytes)
		return
	}
	b.account.giveBack(b.client, bytes)
}

// copyTo puts what has not been played back into a buffer that has room for it.
func (b *Body) copyTo(buffer []byte) {
	buffer = append(buffer, b.buffer[b.played:]...)
	buffer = append(buffer, b.further[:b.beyond]...)
	b.buffer, b.played, b.beyond = buffer, 0, 0
}

// take takes what was read into room, and returns room for more. See [Body.room].
func (b *Body) take(n int, end error, size int) (room []byte, result ReadResult) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed: // the request has ended, and the account has all
	case len(b.buffer) < cap(b.buffer):
		b.buffer = b.buffer[:len(b.buffer)+n]
	default:
		b.beyond = n
	}
	b.arrived += int64(n)
	b.end = end
	return b.roomLocked(size)
}

// room returns where the next bytes belong, or the result if there need be none: at most so many that the body is one
// byte larger than the size. A buffer grows when a byte behind it has arrived, so that its room goes by what a client
// has sent and not by what it announced.
func (b *Body) room(size int) (room []byte, result ReadResult) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.roomLocked(size)
}

func (b *Body) roomLocked(size int) (room []byte, result ReadResult) {
	held, ended := b.unplayed(), b.end == io.EOF //nolint:errorlint // a wrapped one is no clean end
	if held == 0 && b.end != nil {
		b.free() // nothing is there to be played back
	}
	switch {
	case b.consumed && (b.arrived > 0 || !ended), ended && b.arrived < b.announced:
		return nil, Consumed
	case ended && b.arrived == 0: // also closed: nothing was there to be lost
		return nil, Absent
	case b.closed:
		return nil, resultOf(b.end)
	case held > size:
		return nil, TooLarge
	case size > 0 && (b.beyond > 0 || b.end == nil && cap(b.buffer) == 0):
		if result := b.grow(held, size); result != undecided {
			return nil, result
		}
	}
	switch {
	case b.end == nil && len(b.buffer) == cap(b.buffer):
		return b.further[:], undecided
	case b.end == nil:
		return b.buffer[len(b.buffer):min(cap(b.buffer), len(b.buffer)+size+1-held)], undecided
	case ended:
		return nil, Whole
	}
	return nil, resultOf(b.end)
}

// resultOf returns the result of a body that ended with an error, or was closed before.
func resultOf(end error) ReadResult {
	switch {
	case errors.Is(end, os.ErrDeadlineExceeded):
		return TooSlow
	case errors.Is(end, http.ErrBodyReadAfterClose):
		return Consumed
	}
	return Failed
}

// grow makes room behind the bytes that are held, at most for a body of the size or of the announced length. It returns
// a result if the account has none.
func (b *Body) grow(held, size int) ReadResult {
	capacity := max(smallest, growth*held)
	if announced := b.announced; announced >= int64(held) && announced < int64(capacity) {
		capacity = int(announced)
	}
	capacity = min(capacity, size)
	if result := b.charge(int64(capacity - cap(b.buffer))); result != undecided {
		return result
	}
	b.copyTo(make([]byte, 0, capacity))
	return undecided
}

// charge has the account count so many bytes more of the buffer.
func (b *Body) charge(more int64) ReadResult {
	if b.notices {
		return undecided // it counts them already
	}
	if b.charged == 0 {
		more += overhead
	}
	result := b.account.charge(b.client, more)
	if result == undecided {
		b.charged += more
	}
	return result
}

// reading returns the reading of a result. A body that is whole has failed if the request has ended since.
func (b *Body) reading(result ReadResult) Reading {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.end
	if b.closed {
		err = b.closedError()
	}
	switch {
	case result == Whole && b.closed:
		return Reading{body: b, result: Failed, err: err}
	case result == Whole:
		return Reading{body: b, result: Whole, bytes: b.buffer[b.played:]}
	case result == TooSlow, result == Failed:
		return Reading{body: b, result: result, err: err}
	}
	return Reading{body: b, result: result}
}
