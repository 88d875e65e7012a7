package rule

import (
	"fmt"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

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
