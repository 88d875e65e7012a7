package wire

import (
	"encoding/binary"
	"math"
	"reflect"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
)

// stored returns numbers as a script stores them.
func stored(numbers ...float64) string {
	var text []byte
	for _, n := range numbers {
		text = binary.LittleEndian.AppendUint64(text, math.Float64bits(n))
	}
	return string(text)
}

// TestReadTurn reads the fields of turns beside those of nodes, whose names are 8 bytes.
func TestReadTurn(t *testing.T) {
	t.Parallel()
	var none kernel.WaitingState
	for _, test := range []struct {
		field, text string
		want        kernel.WaitingState
		ok          bool
	}{
		{"next", stored(3, 7, 2, 9), kernel.WaitingState{Claim: kernel.NodeClaim{Turn: 3, Node: 7, Units: 2, Ends: 9}}, true},
		{"t0", stored(5), kernel.WaitingState{Turns: map[int64]int64{0: 5}}, true},
		{"t63", stored(6), kernel.WaitingState{Turns: map[int64]int64{63: 6}}, true},
		{"t64", stored(6), none, false},
		{"t-1", stored(6), none, false},
		{"t", stored(6), none, false},
		{"t1", stored(6, 6), none, false},
		{"t1", stored(-6), none, false},
		{"t1", stored(math.NaN()), none, false},
		{"next", stored(3, 7, 2), none, false},
		{"next", stored(3, 7, 2, math.Inf(1)), none, false},
		{stored(7), stored(1, 2, 3), none, false},
		{"all", stored(1, 2, 3, 4, 5), none, false},
		{"", "", none, false},
	} {
		var got kernel.WaitingState
		ok := ReadTurn(&got, test.field, test.text)
		assert.ErrorIf(t, ok != test.ok || !reflect.DeepEqual(got, test.want), "%q %x: %+v, %v", test.field, test.text, got, ok)
	}
}
