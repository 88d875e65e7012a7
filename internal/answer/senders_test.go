package answer

import (
	"net/http"
	"testing"

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
