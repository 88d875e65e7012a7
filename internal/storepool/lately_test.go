package storepool

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// TestLately has two nodes tell what their policies have met lately, and adds that up.
func TestLately(t *testing.T) {
	var nodes []map[string]Lately
	for requests := range 2 {
		s := newSampled(t)
		api := s.Use("api")
		s.Use("never")
		for range 3 + requests {
			api.Count(limiter.OutcomeAllowed, limiter.SourceRedis)
		}
		api.Count(limiter.OutcomeDenied, limiter.SourceRedis)
		api.CountBan()
		s.gauges = Gauges{Running: map[string]int64{"api": 2}, Waiting: map[string]int64{"api": 5}}
		s.step(1)
		api.Count(limiter.OutcomeDryDenied, limiter.SourceRedis)
		s.step(1)
		nodes = append(nodes, assert.NoError(DecodeLately(string(encodeLately(s.Lately()))))(t))
		s.gauges = Gauges{}
		s.step(HistoryPoints)
		assert.Equal(t, len(s.Lately()), 0, "policies that have met something, ten minutes later")
		s.end() // series belong to the process
	}
	assert.Equal(t, nodes[0], map[string]Lately{"api": {5, 1, 1, 1, 2, 5}}, "what the first has met")
	assert.Equal(t, SumLately(nodes), map[string]Lately{"api": {11, 2, 2, 2, 4, 10}}, "the sum")
	assert.Equal(t, len(assert.NoError(DecodeLately(string(encodeLately(nil))))(t)), 0, "policies of a node that has met nothing")
}

// TestLately_foreign refuses what no node of this version answers, as what one answers that knows usage alone.
func TestLately_foreign(t *testing.T) {
	for _, text := range []string{
		"", "null", "{}", "[]", string(encodeUsage(nil, bytesOf)), `{"lately":{"a b":[1,1,1,1,1,1]}}`, `{"lately":{"":[1,1,1,1,1,1]}}`,
		`{"lately":{"a":[-1,1,1,1,1,1]}}`, fmt.Sprintf(`{"lately":{"a":[1,1,1,1,1,%d]}}`, int64(mostCount+1)), `{"lately":{"a":[1.5]}}`, `{"lately":{"a":"x"}}`,
	} {
		_, err := DecodeLately(text)
		assert.ErrorIf(t, err == nil, "%q is an answer", text)
	}
}

// TestLately_many keeps the busiest of more policies than fit an answer.
func TestLately_many(t *testing.T) {
	met := map[string]Lately{}
	for i := range int64(mostLately + 10) {
		met[strings.Repeat("n", 59)+fmt.Sprintf("%05d", i)] = Lately{math.MaxUint32 + i, math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32}
	}
	text := encodeLately(met)
	assert.ErrorIf(t, len(text) > mostAnswer, "an answer has %d bytes", len(text))
	kept := assert.NoError(DecodeLately(string(text)))(t)
	_, least := kept[strings.Repeat("n", 59)+"00009"]
	assert.Equal(t, fmt.Sprint(len(kept), least), fmt.Sprint(mostLately, false), "policies that are kept, and whether the least busy is")
}
