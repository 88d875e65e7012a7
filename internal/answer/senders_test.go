package answer

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestTus_status refuses a part of an upload by the default status, by that which is written, and for other causes.
func TestTus_status(t *testing.T) {
	part := request(t, "PATCH /files/1", "Tus-Resumable: 1.0.0")
	for _, test := range []struct {
		refusal Refusal
		want    int
	}{
		{Refusal{Status: http.StatusTooManyRequests, IsDefault: true}, http.StatusServiceUnavailable},
		{Refusal{Status: http.StatusTooManyRequests}, http.StatusTooManyRequests},
		{Refusal{Status: http.StatusForbidden}, http.StatusForbidden},
		{Refusal{Cause: incomplete, Status: http.StatusBadRequest, IsDefault: true}, http.StatusBadRequest},
	} {
		form := answerAuto.Form(part, test.refusal)
		assert.Equal(t, form.Status(test.refusal), test.want, "%+v", test.refusal)
	}
}

// TestInfluxWrite_wait refuses points for InfluxDB, whose client for node takes the seconds of Retry-After for milliseconds.
func TestInfluxWrite_wait(t *testing.T) {
	for _, test := range []struct {
		request []string
		wait    time.Duration
		want    string // Retry-After
	}{
		{[]string{"POST /api/v2/write?org=o&bucket=b", "Authorization: Token t"}, time.Minute, ""},
		{[]string{"POST /influx/api/v2/write", "Authorization: Token t"}, time.Second, ""},
		{[]string{"POST /api/v2/write", "Authorization: Token t"}, time.Minute + 1, "61"},
		{[]string{"POST /api/v2/write", "Authorization: Bearer t"}, time.Second, "1"},
		{[]string{"GET /api/v2/write", "Authorization: Token t"}, time.Second, "1"},
		{[]string{"POST /api/v2/query", "Authorization: Token t"}, time.Second, "1"},
		{[]string{"POST /api/v2/write"}, time.Second, "1"},
	} {
		q := request(t, test.request...)
		w := httptest.NewRecorder()
		refusal := Refusal{Status: http.StatusTooManyRequests, Wait: SetRefusal(w.Header(), q.Header, test.wait, 0, nil)}
		answerAuto.Form(q, refusal).Write(w, q, refusal, nil)
		assert.Equal(t, w.Header().Get(RetryAfter), test.want, "Retry-After of %q", test.request)
		assert.Equal(t, w.Code, http.StatusTooManyRequests, "the status of %q", test.request)
	}
}
