package redis

import (
	"math"
	"reflect"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestReadTurn reads the fields of turns beside those of nodes, whose names are 8 bytes.
func TestReadTurn(t *testing.T) {
	t.Parallel()
	var none kernel.WaitingState
	for _, test := range []struct {
		field, text string
		want        kernel.WaitingState
		ok          bool
	}{
		{"next", redistest.Doubles(3, 7, 2, 9), kernel.WaitingState{Claim: kernel.NodeClaim{Turn: 3, Node: 7, Units: 2, Ends: 9}}, true},
		{"t0", redistest.Doubles(5), kernel.WaitingState{Turns: map[int64]int64{0: 5}}, true},
		{"t63", redistest.Doubles(6), kernel.WaitingState{Turns: map[int64]int64{63: 6}}, true},
		{"t64", redistest.Doubles(6), none, false},
		{"t-1", redistest.Doubles(6), none, false},
		{"t", redistest.Doubles(6), none, false},
		{"t1", redistest.Doubles(6, 6), none, false},
		{"t1", redistest.Doubles(-6), none, false},
		{"t1", redistest.Doubles(math.NaN()), none, false},
		{"next", redistest.Doubles(3, 7, 2), none, false},
		{"next", redistest.Doubles(3, 7, 2, math.Inf(1)), none, false},
		{redistest.Doubles(7), redistest.Doubles(1, 2, 3), none, false},
		{"all", redistest.Doubles(1, 2, 3, 4, 5), none, false},
		{"", "", none, false},
	} {
		var got kernel.WaitingState
		ok := ReadTurn(&got, test.field, test.text)
		assert.ErrorIf(t, ok != test.ok || !reflect.DeepEqual(got, test.want), "%q %x: %+v, %v", test.field, test.text, got, ok)
	}
}
