package requestbody_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/requestbody"
)

var errBroken = errors.New("broken")

// pieces is a body that comes in pieces of a length, with its end behind or beside the last one.
type pieces struct {
	left   []byte
	length int
	end    error
	beside bool
	empty  bool // a read without bytes comes before each piece
	turn   bool
	taken  int
	closed bool
}

func (p *pieces) Read(b []byte) (n int, err error) {
	if p.turn = !p.turn; p.empty && p.turn {
		return 0, nil
	}
	n = copy(b[:min(len(b), p.length)], p.left)
	p.left = p.left[n:]
	p.taken += n
	if len(p.left) == 0 && (n == 0 || p.beside) {
		err = p.end
	}
	return n, err
}

func (p *pieces) Close() error {
	p.closed = true
	return nil
}

// newRequest returns a request with a body, of unknown length where it is below 0, and the end of its context.
func newRequest(body io.ReadCloser, length int64) (r *http.Request, end func()) {
	ctx, end := context.WithCancel(context.Background())
	r = httptest.NewRequestWithContext(ctx, http.MethodPost, "/", http.NoBody)
	r.Body, r.ContentLength = body, length
	return r, end
}

// play reads what is left of a body in pieces of a length.
func play(body io.Reader, length int) (read []byte, end error) {
	for piece := make([]byte, length); end == nil; {
		var n int
		n, end = body.Read(piece)
		read = append(read, piece[:n]...)
	}
	return read, end
}

// FuzzBody reads bodies of any pieces by two bounds, plays them back in any pieces, and compares with the body itself.
func FuzzBody(f *testing.F) {
	f.Add(3000, 1000, 3000, 100, 100, int64(3000), uint8(0))
	f.Add(3000, 3000, 1000, 5000, 7, int64(-1), uint8(3))
	f.Add(300000, 200000, 300000, 1000, 1000, int64(-1), uint8(5))
	f.Add(300000, 400000, 300000, 40000, 1000, int64(300000), uint8(2))
	f.Add(1, 0, 1, 1, 1, int64(7), uint8(15))
	f.Add(0, 100, 63, 1, 66, int64(-1), uint8(1))             // nothing, and an error
	f.Add(2983, 1000, 3000, 100, 100, int64(3000), uint8(0))  // less than is announced
	f.Add(3000, 4000, 4000, 100, 100, int64(3000), uint8(10)) // a handler between
	f.Fuzz(func(t *testing.T, length, first, second, piece, played int, announced int64, ways uint8) {
		length, first, second = length&(1<<20-1), first&(1<<20-1), second&(1<<20-1)
		piece, played = max(1, piece&0xffff, length/1000), max(1, played&0xffff, length/1000)
		body, end, breaks := textOf(length), io.EOF, ways&1 != 0
		if breaks {
			end = errBroken
		}
		original := &pieces{left: body, length: piece, end: end, beside: ways&2 != 0, empty: ways&4 != 0}
		if announced == 0 {
			announced = -1
		}
		account := requestbody.NewAccount(1 << 30)
		r, done := newRequest(original, announced)
		defer done()
		early := 0
		for i, size := range []int{first, second} {
			if announced > int64(size) {
				continue
			}
			got := account.Read(httptest.NewRecorder(), r, client, wide(size))
			switch want := body[early:]; got.Result() {
			case requestbody.Whole:
				same := bytes.Equal(got.Bytes(), want)
				assert.ErrorIf(t, breaks || len(want) > size || !same, "%d bytes of %d are whole", len(got.Bytes()), len(want))
			case requestbody.Absent:
				assert.ErrorIf(t, breaks || len(want) > 0, "absent of %d bytes", len(want))
			case requestbody.TooLarge:
				assert.ErrorIf(t, len(want) <= size, "%d bytes are too large for %d", len(want), size)
			case requestbody.Failed:
				assert.ErrorIf(t, !errors.Is(got.Err(), errBroken) || !breaks || len(want) > size, "failed with %v", got.Err())
			case requestbody.Consumed:
				isCut := !breaks && int64(length) < announced
				assert.ErrorIf(t, !isCut && early == 0, "consumed with all of %d bytes", length)
			default:
				t.Errorf("got %v", got.Result())
			}
			assert.ErrorIf(t, original.taken > early+max(first, second)+1, "%d bytes are taken", original.taken)
			if i == 0 && ways&8 != 0 { // a handler between reads a part
				some := make([]byte, min(len(body), size)/2)
				n, _ := io.ReadFull(r.Body, some) // it may end
				assert.ErrorIf(t, !bytes.Equal(some[:n], body[:n]), "%d bytes are played that differ", n)
				early = n
			}
		}
		rest, err := play(r.Body, played)
		assert.ErrorIf(t, !errors.Is(err, end), "the body ends with %v", err)
		assert.ErrorIf(t, !bytes.Equal(rest, body[early:]), "%d bytes are played of %d, or differ", len(rest), length-early)
		assert.Equal(t, account.Held(), 0, "held")
		assert.Must(t, r.Body.Close())
		assert.ErrorIf(t, !original.closed, "the original body is open")
	})
}

// TestBody_close gives back what is held, and closes the original.
func TestBody_close(t *testing.T) {
	account, original := requestbody.NewAccount(room), &pieces{left: textOf(10), length: 10, end: io.EOF}
	r, end := newRequest(original, 10)
	defer end()
	reading := account.Read(httptest.NewRecorder(), r, client, wide(10))
	assert.ErrorIf(t, account.Held() < 10, "%d bytes are held", account.Held())
	assert.Must(t, r.Body.Close())
	assert.Equal(t, account.Held(), 0, "held")
	assert.ErrorIf(t, !original.closed, "the original body is open")
	n, err := r.Body.Read(make([]byte, 5))
	assert.ErrorIf(t, n != 0 || !errors.Is(err, http.ErrBodyReadAfterClose), "%d bytes, %v", n, err)
	assert.ErrorIf(t, !bytes.Equal(reading.Bytes(), textOf(10)), "the bytes have changed")
	assert.Equal(t, account.Read(httptest.NewRecorder(), r, client, wide(10)).Result(), requestbody.Consumed, "the result of another reading")

	r.Body, r.ContentLength = &pieces{length: 10, end: io.EOF}, -1
	account.Read(httptest.NewRecorder(), r, client, wide(10))
	assert.Must(t, r.Body.Close())
	again := account.Read(httptest.NewRecorder(), r, client, wide(10))
	assert.Equal(t, again.Result(), requestbody.Absent, "the result of another reading of no bytes")
}

// TestBody_consumed reads bodies of which a handler has read before, or one of no bytes.
func TestBody_consumed(t *testing.T) {
	const whole = 10
	for name, test := range map[string]struct {
		announced int64
		before    int // bytes that a handler reads before the first reading
		first     int // the size of the first reading; -1: none
		between   int // bytes that a handler reads between the readings
		length    int
		want      requestbody.ReadResult
	}{
		"nothing":                          {whole, 0, whole, 0, whole, requestbody.Whole},
		"a byte before":                    {whole, 1, -1, 0, whole, requestbody.Consumed},
		"all before":                       {whole, whole, -1, 0, whole, requestbody.Consumed},
		"all before, without a length":     {-1, whole, -1, 0, whole, requestbody.Absent},
		"a byte between":                   {whole, 0, whole, 1, whole, requestbody.Consumed},
		"a byte between, without a length": {-1, 0, whole, 1, whole, requestbody.Consumed},
		"all between":                      {-1, 0, whole, whole, whole, requestbody.Consumed},
		"behind what was too large":        {-1, 0, 3, whole, whole, requestbody.Consumed},
		"what was too large, between":      {-1, 0, 3, 1, whole, requestbody.Consumed},
		"what was too large, not consumed": {-1, 0, 3, 0, whole, requestbody.Whole},
		"behind a look":                    {-1, 0, 0, 1, whole, requestbody.Consumed},
		"no bytes":                         {-1, 0, whole, 1, 0, requestbody.Absent},
		"no bytes behind a look":           {-1, 0, 0, 1, 0, requestbody.Absent},
	} {
		t.Run(name, func(t *testing.T) {
			account := requestbody.NewAccount(room)
			r, end := newRequest(&pieces{left: textOf(test.length), length: 3, end: io.EOF}, test.announced)
			defer end()
			play := func(count int) { _, _ = io.CopyN(io.Discard, r.Body, int64(count)) } // an end is what is asked for
			play(test.before)
			if test.first >= 0 {
				account.Read(httptest.NewRecorder(), r, client, wide(test.first))
			}
			play(test.between)
			got := account.Read(httptest.NewRecorder(), r, client, wide(whole))
			assert.Equal(t, got.Result(), test.want, "the result")
			assert.Equal(t, len(got.Bytes()) > 0, test.want == requestbody.Whole, "that bytes are read")
		})
	}
}

// TestBody_end gives back what is held when the request ends, at once if it has ended, and by a close where it has no end.
func TestBody_end(t *testing.T) {
	account := requestbody.NewAccount(room)
	read := func(r *http.Request) {
		r.Body = &pieces{left: textOf(10), length: 10, end: io.EOF}
		got := account.Read(httptest.NewRecorder(), r, client, wide(10))
		assert.ErrorIf(t, !bytes.Equal(got.Bytes(), textOf(10)), "%d bytes are read", len(got.Bytes()))
	}
	r, end := newRequest(http.NoBody, 10)
	read(r)
	assert.ErrorIf(t, account.Held() < 10, "%d bytes are held", account.Held())
	end()
	checkGivenBack(t, account)

	read(r)
	assert.Equal(t, account.Held(), 0, "held after a request that had ended")
	n, err := r.Body.Read(make([]byte, 5))
	assert.ErrorIf(t, n != 0 || !errors.Is(err, http.ErrBodyReadAfterClose), "%d bytes, %v", n, err)

	r = r.WithContext(context.Background())
	read(r)
	assert.ErrorIf(t, account.Held() < 10, "%d bytes are held without an end", account.Held())
	assert.Must(t, r.Body.Close())
	assert.Equal(t, account.Held(), 0, "held after a close")
}

// endings is a context that counts what waits for its end.
type endings struct {
	context.Context

	done             chan struct{}
	waiting, stopped int
}

func (e *endings) Done() <-chan struct{} { return e.done }

// AfterFunc is called by context.AfterFunc.
func (e *endings) AfterFunc(func()) (stop func() bool) {
	e.waiting++
	return func() bool {
		e.stopped++
		return true
	}
}

// TestBody_watch waits for the request's end once for all reads of a body, and only while something is held.
func TestBody_watch(t *testing.T) {
	account := requestbody.NewAccount(room)
	ctx := &endings{Context: context.Background(), done: make(chan struct{})}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", http.NoBody)
	read := func(size int) { account.Read(httptest.NewRecorder(), r, client, wide(size)) }
	check := func(waiting, stopped int, when string) {
		t.Helper()
		assert.Equal(t, [2]int{ctx.waiting, ctx.stopped}, [2]int{waiting, stopped}, "what waits for the end, and is stopped, %s", when)
	}
	body := func(length int) { r.Body, r.ContentLength = &pieces{left: textOf(length), length: 7, end: io.EOF}, -1 }

	body(3000)
	read(10)
	check(1, 0, "with a beginning")
	read(100)
	read(4000)
	check(1, 0, "with the rest")
	assert.NoError(io.ReadAll(r.Body))(t)
	check(1, 1, "behind the end")
	read(4000)
	assert.Must(t, r.Body.Close())
	check(1, 1, "behind a close")

	body(0)
	read(10)
	check(1, 1, "with a body of no bytes")
	body(5)
	read(10)
	assert.Must(t, r.Body.Close())
	check(2, 2, "behind the close of a body that was not read")
}

// TestBody_ahead waits for the request's end behind the handlers alone, and for nothing where they have read the body.
func TestBody_ahead(t *testing.T) {
	account := requestbody.NewAccount(room)
	for _, reads := range []int{0, 1, 3000} {
		ctx := &endings{Context: context.Background(), done: make(chan struct{})}
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", &pieces{left: textOf(3000), length: 7, end: io.EOF})
		r.ContentLength = -1
		body := account.ReadAhead(httptest.NewRecorder(), r, client, wide(4000)).Body()
		assert.Equal(t, ctx.waiting, 0, "what waits for the end before the handlers have returned")
		assert.NoError(io.ReadFull(r.Body, make([]byte, reads)))(t)
		body.EndWith(ctx)
		body.EndWith(ctx)
		left := account.Held() > 0
		assert.Equal(t, left, reads < 3000, "whether the account holds something behind %d bytes", reads)
		assert.Equal(t, ctx.waiting == 1, left, "whether the end is waited for behind %d bytes", reads)
		assert.Must(t, r.Body.Close())
		assert.Equal(t, account.Held(), 0, "what is held behind the close")
	}
	r, end := newRequest(io.NopCloser(strings.NewReader("left")), 4)
	body := account.ReadAhead(httptest.NewRecorder(), r, client, wide(10)).Body()
	end()
	assert.ErrorIf(t, account.Held() == 0, "nothing is held while the handlers run")
	body.EndWith(r.Context())
	assert.Equal(t, account.Held(), 0, "what is held once the handlers have returned to a request that has ended")
	none := account.ReadAhead(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody), client, wide(10)).Body()
	none.EndWith(r.Context())
	assert.ErrorIf(t, none != nil, "a request without a body has one")
}

// TestBody_panic has a body panic within a read: what has arrived is given back with the request.
func TestBody_panic(t *testing.T) {
	account := requestbody.NewAccount(room)
	r, end := newRequest(io.NopCloser(io.MultiReader(strings.NewReader("begin"), panics{})), -1)
	func() {
		defer func() { assert.Equal(t, recover(), any("broken"), "the panic") }()
		account.Read(httptest.NewRecorder(), r, client, wide(10))
	}()
	assert.ErrorIf(t, account.Held() == 0, "nothing is held")
	end()
	checkGivenBack(t, account)
}

type panics struct{}

func (panics) Read([]byte) (int, error) { panic("broken") }

// TestBody_grows has memory go by what has arrived, not by what is announced, and less of it by what was played back.
func TestBody_grows(t *testing.T) {
	const size = 1 << 20
	account := requestbody.NewAccount(room)
	body := textOf(size)
	for _, announced := range []int64{size, -1} {
		reading, writing := io.Pipe()
		r, end := newRequest(reading, announced)
		read := make(chan requestbody.Reading)
		go func() { read <- account.Read(httptest.NewRecorder(), r, client, wide(size)) }()
		for sent := 0; sent < size; {
			n := min(10000, size-sent)
			assert.NoError(writing.Write(body[sent : sent+n]))(t)
			sent += n
			assert.ErrorIf(t, account.Held() > int64(4*sent+2048), "%d bytes are held of %d", account.Held(), sent)
		}
		assert.Must(t, writing.Close())
		got := <-read
		checkReading(t, got, body, size)
		for left := size; left > 0; {
			n, err := r.Body.Read(make([]byte, 10000))
			left -= n
			assert.ErrorIf(t, err != nil && left > 0, "%v", err)
			assert.ErrorIf(t, account.Held() > max(int64(4*left), 64<<10)+256, "%d bytes are held for %d", account.Held(), left)
		}
		assert.Equal(t, account.Held(), 0, "held")
		end()
	}
}

// TestBody_largest has room for the largest body of a limit, and not for a byte more.
func TestBody_largest(t *testing.T) {
	for _, limit := range []int64{1 << 20, 3<<20 + 5} {
		for more, want := range []requestbody.ReadResult{requestbody.Whole, requestbody.NoShare} {
			account, body := requestbody.NewAccount(limit), textOf(int(requestbody.LargestBody(limit))+more)
			r, end := newRequest(&pieces{left: body, length: 1000, end: io.EOF}, -1)
			got := account.Read(httptest.NewRecorder(), r, client, wide(len(body)))
			assert.Equal(t, got.Result(), want, "the result for %d bytes with room for %d", len(body), limit)
			end()
			checkGivenBack(t, account)
		}
	}
}

// TestBody_noRoom refuses a body at its begin or within it, and plays back what has arrived.
func TestBody_noRoom(t *testing.T) {
	for _, test := range []struct {
		limit int64
		want  requestbody.ReadResult
	}{
		{100, requestbody.NoShare},
		{8 * 2000, requestbody.NoShare},
		{8 * 20000, requestbody.NoRoom},
	} {
		account := requestbody.NewAccount(test.limit)
		if test.want == requestbody.NoRoom { // others have the most
			for _, other := range []string{"a", "b", "c", "d", "e", "f", "g"} {
				r, end := newRequest(&pieces{left: textOf(19700), length: 19700, end: io.EOF}, 19700)
				t.Cleanup(end)
				got := account.Read(httptest.NewRecorder(), r, other, wide(19700))
				assert.Equal(t, got.Result(), requestbody.Whole, "the result of %s", other)
			}
			account.SetLimit(account.Held() + 2000)
			assert.ErrorIf(t, account.Held()/7 < 19700, "%d bytes are held", account.Held())
		}
		held, body := account.Held(), textOf(3000)
		r, end := newRequest(&pieces{left: body, length: 100, end: io.EOF}, -1)
		reading := account.Read(httptest.NewRecorder(), r, client, wide(3000))
		assert.Equal(t, reading.Result(), test.want, "the result with room for %d", test.limit)
		assert.Equal(t, reading.Result().Status(), http.StatusServiceUnavailable, "the status")
		rest, err := play(r.Body, 500)
		assert.ErrorIf(t, !errors.Is(err, io.EOF) || !bytes.Equal(rest, body), "%d bytes are played, %v", len(rest), err)
		assert.Equal(t, account.Held(), held, "held")
		end()
	}
}

// TestBody_noProgress ends with a body that returns nothing for ever.
func TestBody_noProgress(t *testing.T) {
	account := requestbody.NewAccount(room)
	r, end := newRequest(io.NopCloser(stuck{}), -1)
	defer end()
	checkFailure(t, account.Read(httptest.NewRecorder(), r, client, wide(10)), requestbody.Failed, io.ErrNoProgress)
	r.Body = io.NopCloser(stuck{})
	checkFailure(t, account.Read(httptest.NewRecorder(), r, client, requestbody.Bounds{Size: 10}), requestbody.TooSlow, os.ErrDeadlineExceeded)
}

func checkFailure(t *testing.T, got requestbody.Reading, result requestbody.ReadResult, err error) {
	t.Helper()
	assert.Equal(t, got.Result(), result, "the result")
	assert.ErrorIf(t, !errors.Is(got.Err(), err) || got.Bytes() != nil, "got %v and %d bytes, want %v", got.Err(), len(got.Bytes()), err)
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

// TestBody_atOnce has a handler's goroutine read a body on, as the one of Caddy's proxy does, while the request ends.
func TestBody_atOnce(t *testing.T) {
	account := requestbody.NewAccount(room)
	for range 200 {
		r, end := newRequest(&pieces{left: textOf(5000), length: 5000, end: io.EOF}, -1)
		account.Read(httptest.NewRecorder(), r, client, wide(4000))
		var handlers sync.WaitGroup
		handlers.Go(func() {
			read, err := play(r.Body, 100)
			assert.ErrorIf(t, errors.Is(err, io.EOF) && len(read) < 5000, "a body of %d bytes ends as if it were whole", len(read))
		})
		handlers.Go(func() { assert.Must(t, r.Body.Close()) })
		handlers.Go(end)
		handlers.Wait()
		checkGivenBack(t, account)
	}
}

// TestBody_againAtOnce has a second handler read a body while the request ends: it gets the whole or an error.
func TestBody_againAtOnce(t *testing.T) {
	account, body := requestbody.NewAccount(room), textOf(5000)
	for i := range 200 {
		r, end := newRequest(&pieces{left: body, length: 50, end: io.EOF}, -1)
		account.Read(httptest.NewRecorder(), r, client, wide(4000+i%2*2000))
		var handlers sync.WaitGroup
		handlers.Go(end)
		handlers.Go(func() {
			got := account.Read(httptest.NewRecorder(), r, client, wide(6000))
			if got.Result() == requestbody.Whole {
				assert.ErrorIf(t, !bytes.Equal(got.Bytes(), body), "%d bytes are whole", len(got.Bytes()))
			} else {
				checkFailure(t, got, requestbody.Failed, http.ErrBodyReadAfterClose)
			}
		})
		handlers.Wait()
		checkGivenBack(t, account)
	}
}

// TestOutcome_status has a status for what is refused because of the result alone.
func TestOutcome_status(t *testing.T) {
	for result, want := range map[requestbody.ReadResult]int{
		requestbody.Absent: 0, requestbody.Streamed: 0, requestbody.Whole: 0, requestbody.Failed: 0,
		requestbody.TooLarge: 413, requestbody.TooSlow: 408, requestbody.NoRoom: 503, requestbody.NoShare: 503,
	} {
		assert.Equal(t, result.Status(), want, "the status of %d", result)
	}
	assert.Equal(t, requestbody.RetryAfter, time.Second, "the wait")
}
