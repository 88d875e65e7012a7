package requestbody

import (
	"strconv"
	"sync"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

func TestAccount(t *testing.T) {
	const share = 1000 + overhead
	a := NewAccount(8000)
	for _, step := range []struct {
		client string
		bytes  int64
		want   ReadResult
		held   int64
	}{
		{"a", share + 1, NoShare, 0},
		{"a", 600, undecided, 600},
		{"a", share - 599, NoShare, 600},
		{"a", share - 600, undecided, share},
		{"b", share, undecided, 2 * share},
		{"c", share, undecided, 3 * share},
		{"d", share, undecided, 4 * share},
		{"e", share, undecided, 5 * share},
		{"f", share, undecided, 6 * share},
		{"g", 7999 - 6*share, undecided, 7999},
		{"h", 2, NoRoom, 7999},
		{"h", 1, undecided, 8000},
		{"i", 1, NoRoom, 8000},
	} {
		assert.Equal(t, a.charge(step.client, step.bytes), step.want, "%d bytes for %s", step.bytes, step.client)
		assert.Equal(t, a.Held(), step.held, "held")
	}
	a.giveBack("a", share)
	assert.Equal(t, a.charge("i", 100), undecided, "100 bytes for i")
	a.SetLimit(4000)
	assert.Equal(t, a.charge("k", 10), NoRoom, "10 bytes of less room")
	a.SetLimit(80000)
	assert.Equal(t, a.charge("k", 10000), undecided, "10000 bytes of more room")
}

func TestAccount_largestBody(t *testing.T) {
	for limit, want := range map[int64]int64{128 << 20: 16 << 20, 1 << 20: 128 << 10, 0: 0, -9: 0, 7: 0, 8: 1} {
		assert.Equal(t, LargestBody(limit), want, "the largest body of %d bytes", limit)
		assert.ErrorIf(t, LargestBody(LimitFor(want)) != want || LimitFor(want) > max(0, limit), "%d bytes have room for %d", LimitFor(want), want)
	}
}

// TestAccount_forgets has many clients hold bytes at once, and none afterwards: nothing is kept of them.
func TestAccount_forgets(t *testing.T) {
	const clients = 100000
	a := NewAccount(clients * 1000)
	for i := range clients {
		assert.FatalIf(t, a.charge(strconv.Itoa(i), 1000) != undecided, "no room for client %d", i)
	}
	for i := range clients {
		a.giveBack(strconv.Itoa(i), 1000)
	}
	assert.Equal(t, a.Held(), 0, "held")
	for s := range a.shares.All() {
		assert.ErrorIf(t, s.held != nil, "a shard keeps its map of %d clients", s.most)
	}
}

// TestAccount_atOnce has clients take and give back at the same time: never more than they may, and all comes back.
func TestAccount_atOnce(t *testing.T) {
	const limit = 16000
	a := NewAccount(limit)
	var clients sync.WaitGroup
	for i := range 20 {
		clients.Go(func() {
			client := strconv.Itoa(i % 10)
			for range 2000 {
				if a.charge(client, 1500) == undecided {
					assert.ErrorIf(t, a.Held() > limit, "%d bytes are held", a.Held())
					a.giveBack(client, 1500)
				}
			}
		})
	}
	clients.Wait()
	assert.Equal(t, a.Held(), 0, "held")
}
