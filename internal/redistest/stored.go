package redistest

import (
	"context"
	"encoding/binary"
	"math"
	"regexp"
	"strconv"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// Doubles returns numbers as a script stores them.
func Doubles(numbers ...float64) string {
	var text []byte
	for _, n := range numbers {
		text = binary.LittleEndian.AppendUint64(text, math.Float64bits(n))
	}
	return string(text)
}

// InfoSum returns the sum of the numbers that a pattern finds in a section of what Redis reports.
func InfoSum(t testing.TB, client *goredis.Client, section, pattern string) (sum float64) {
	t.Helper()
	for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(client.Info(context.Background(), section).Val(), -1) {
		sum += assert.NoError(strconv.ParseFloat(found[1], 64))(t)
	}
	return sum
}
