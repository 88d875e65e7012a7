package requestbody_test

import (
	"io"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/requestbody"
)

// TestReadToNotice fills a quarter of an account with bodies that no limit needs. Others are left alone, and those whose values
// are needed find the room of their client and of the process as before.
func TestReadToNotice(t *testing.T) {
	const quarter, size, overhead = 40000, 20000, 256
	account := requestbody.NewAccount(4 * quarter)
	var held []io.Reader
	for _, test := range []struct {
		what         string
		length, told int64 // of the body, and as the request tells it
		want         requestbody.ReadResult
	}{
		{"the first", 19000, 19000, requestbody.Whole},
		{"the second", 19000, 19000, requestbody.Whole},
		{"a byte too many", quarter - 2*19000 - 3*overhead + 1, quarter - 2*19000 - 3*overhead + 1, requestbody.NoRoom},
		{"an unknown length", 10, -1, requestbody.NoRoom},
		{"a large one", size + 1, size + 1, requestbody.TooLarge},
		{"what is left", quarter - 2*19000 - 3*overhead, quarter - 2*19000 - 3*overhead, requestbody.Whole},
		{"one byte", 1, 1, requestbody.NoRoom},
	} {
		body := textOf(int(test.length))
		original := &pieces{left: body, length: 1000, end: io.EOF}
		r, end := newRequest(original, test.told)
		t.Cleanup(end)
		got := account.ReadToNotice(httptest.NewRecorder(), r, wide(size))
		assert.Equal(t, got.Result(), test.want, "the result of %s", test.what)
		if test.want == requestbody.Whole {
			held = append(held, r.Body)
			continue
		}
		assert.ErrorIf(t, original.taken != 0 || r.Body != original, "%s: %d bytes were read", test.what, original.taken)
	}
	assert.Equal(t, account.Held(), quarter, "held")
	for _, other := range []string{client, "b", "c", "d", "e"} { // a share of each
		r, end := newRequest(&pieces{left: textOf(size), length: 1000, end: io.EOF}, size)
		t.Cleanup(end)
		assert.Equal(t, account.Read(httptest.NewRecorder(), r, other, wide(size)).Result(), requestbody.Whole, "the result for %s's values", other)
		held = append(held, r.Body)
	}
	for _, body := range held {
		_, err := play(body, 700)
		assert.Equal(t, err, io.EOF, "the end")
	}
	assert.Equal(t, account.Held(), 0, "held in the end")
}

// TestReadToNotice_fullAccount has bodies whose values are needed hold all but little of an account.
func TestReadToNotice_fullAccount(t *testing.T) {
	account := requestbody.NewAccount(room)
	r, end := newRequest(&pieces{left: textOf(20000), length: 1000, end: io.EOF}, 20000)
	t.Cleanup(end)
	assert.Equal(t, account.Read(httptest.NewRecorder(), r, client, wide(20000)).Result(), requestbody.Whole, "the result for values")
	account.SetLimit(account.Held() + 1000)
	for length, want := range map[int64]requestbody.ReadResult{1000: requestbody.NoRoom, 700: requestbody.Whole} {
		r, end := newRequest(&pieces{left: textOf(int(length)), length: 1000, end: io.EOF}, length)
		assert.Equal(t, account.ReadToNotice(httptest.NewRecorder(), r, wide(20000)).Result(), want, "the result for %d bytes", length)
		end()
		assert.Retry(t, "the body is given back", func() (again bool, seen any) { return account.Held() > 20256, account.Held() })
	}
}

// TestReadToNotice_stalled has a client announce a body and send a part of it. At the request's end the account has all back.
func TestReadToNotice_stalled(t *testing.T) {
	const size = 10000
	account := requestbody.NewAccount(room)
	reading, writing := io.Pipe()
	r, end := newRequest(reading, size)
	result := make(chan requestbody.ReadResult, 1)
	go func() { result <- account.ReadToNotice(httptest.NewRecorder(), r, wide(size)).Result() }()
	assert.NoError(writing.Write(textOf(3000)))(t)
	assert.Equal(t, account.Held(), size+256, "held")
	assert.Must(t, writing.CloseWithError(errBroken))
	assert.Equal(t, <-result, requestbody.Failed, "the result")
	assert.Equal(t, account.Held(), size+256, "held for error routes")
	end()
	checkGivenBack(t, account)
}

// TestReadToNotice_again leaves alone what this package has read of, for values or to notice, and the reverse finds it whole.
func TestReadToNotice_again(t *testing.T) {
	const size = 5000
	for _, length := range []int64{size, -1} {
		account, body := requestbody.NewAccount(room), textOf(size)
		r, end := newRequest(&pieces{left: body, length: 1000, end: io.EOF}, length)
		for range 2 {
			before := account.Held()
			account.ReadToNotice(httptest.NewRecorder(), r, wide(size))
			assert.ErrorIf(t, before > 0 && account.Held() != before, "%d bytes are held, %d before", account.Held(), before)
			checkReading(t, account.Read(httptest.NewRecorder(), r, client, wide(size)), body, size)
		}
		end()
		checkGivenBack(t, account)
	}
}

// TestReadToNotice_atOnce has many requests read their bodies at once: never more than a quarter is held.
func TestReadToNotice_atOnce(t *testing.T) {
	const limit = 160000
	account := requestbody.NewAccount(limit)
	var requests sync.WaitGroup
	for range 20 {
		requests.Go(func() {
			for range 200 {
				r, end := newRequest(&pieces{left: textOf(9000), length: 3000, end: io.EOF}, 9000)
				account.ReadToNotice(httptest.NewRecorder(), r, wide(9000))
				assert.ErrorIf(t, account.Held() > limit/4, "%d bytes are held", account.Held())
				_ = r.Body.Close() // it does not fail
				end()
			}
		})
	}
	requests.Wait()
	assert.Equal(t, account.Held(), 0, "held")
}
