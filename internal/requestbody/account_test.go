package requestbody

import (
	"strconv"
	"sync"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

func TestAccount(t *testing.T) {
	a := NewAccount(800)
	for _, step := range []struct {
		client string
		bytes  int64
		want   Outcome
		held   int64
	}{
		{"a", 101, NoShare, 0},
		{"a", 60, undecided, 60},
		{"a", 41, NoShare, 60},
		{"a", 40, undecided, 100},
		{"b", 100, undecided, 200},
		{"c", 100, undecided, 300},
		{"d", 100, undecided, 400},
		{"e", 100, undecided, 500},
		{"f", 100, undecided, 600},
		{"g", 100, undecided, 700},
		{"h", 99, undecided, 799},
		{"i", 2, NoRoom, 799},
		{"i", 1, undecided, 800},
		{"j", 1, NoRoom, 800},
	} {
		assert.Equal(t, a.charge(step.client, step.bytes), step.want, "%d bytes for %s", step.bytes, step.client)
		assert.Equal(t, a.Held(), step.held, "held")
	}
	a.giveBack("a", 100)
	assert.Equal(t, a.charge("j", 100), undecided, "100 bytes for j")
	a.SetLimit(400)
	assert.Equal(t, a.charge("k", 10), NoRoom, "10 bytes of less room")
	a.SetLimit(8000)
	assert.Equal(t, a.charge("k", 1000), undecided, "1000 bytes of more room")
}

func TestAccount_largestBody(t *testing.T) {
	for limit, want := range map[int64]int64{128 << 20: 16<<20 - 256, 0: 0, -1: 0, 2048: 0, 2056: 1} {
		assert.Equal(t, LargestBody(limit), want, "the largest body of %d bytes", limit)
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
