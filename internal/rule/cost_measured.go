package rule

import (
	"fmt"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// This file has the costs that this node measures, which are always known.

// ResponseBytes is the source of a cost that is the length of the response's body.
const ResponseBytes = "response_bytes"

// bytesCost is the length of the response's body, as far as it was sent.
type bytesCost struct{}

func parseBytes(from string, fallback int64) (costSource, error) {
	if from != ResponseBytes || fallback != 0 {
		return nil, fmt.Errorf("cost %s %d: %[1]s is always known and takes no fallback; write it without braces and number", from, fallback)
	}
	return bytesCost{}, nil
}

// cost is always told and final: of a response without a header it is what the request took.
func (bytesCost) cost(q costQuestion) (units int64, told, final bool) {
	if !q.response.Begun {
		return q.taken, true, true
	}
	return min(q.response.Bytes, limiter.MaxCharge), true, true
}

// BackendTime is the source of a cost that is how long a backend has worked for the response.
const BackendTime = "backend_time"

// timeCost is the time of the backend in whole milliseconds.
type timeCost struct{}

func parseTime(from string, fallback int64) (costSource, error) {
	if from != BackendTime || fallback != 0 {
		return nil, fmt.Errorf("cost %s %d: %[1]s is always known and takes no fallback; write it without braces and number", from, fallback)
	}
	return timeCost{}, nil
}

// cost is always told, and final: what becomes of the body changes nothing. A part of a millisecond counts as one.
func (timeCost) cost(q costQuestion) (units int64, told, final bool) {
	took := max(0, q.response.BackendTime)
	units = int64(took / time.Millisecond)
	if took%time.Millisecond > 0 {
		units++
	}
	return min(units, limiter.MaxCharge), true, true
}

// TimesBackend reports whether the cost is the time of the backend.
func (c *Cost) TimesBackend() bool { return c.source == timeCost{} }
