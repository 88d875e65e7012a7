package crawlers

import (
	"net/netip"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// at returns an address of a network of strangers, and the key of its line.
func at(network, host int) (netip.Addr, lineKey) {
	a := netip.AddrFrom4([4]byte{100, byte(network >> 8), byte(network), byte(host)})
	return a, lineKey{networkOf(a), stranger}
}

func push(q *queue, network, host int) (netip.Addr, bool) {
	a, key := at(network, host)
	return q.push(a, key)
}

// TestQueue_turns serves networks in turn, and known ones before all others.
func TestQueue_turns(t *testing.T) {
	q := newQueue()
	for host := range 3 {
		push(q, 1, host)
	}
	push(q, 2, 0)
	q.push(googlebot, lineKey{nearOf(googlebot), known})
	var order []string
	for l := q.next(); l != nil; l = q.next() {
		order = append(order, q.begin(l).String())
	}
	assert.Equal(t, order, []string{"66.249.66.1", "100.0.1.0", "100.0.2.0", "100.0.1.1", "100.0.1.2"}, "the order")
	assert.Equal(t, q.Len(), 0, "what waits")
}

// TestQueue_bounds keeps a network's look-ups under way and its line within bounds, and forgets lines that are done.
func TestQueue_bounds(t *testing.T) {
	q := newQueue()
	for host := range 10 {
		push(q, 1, host)
	}
	var begun []*line
	for l := q.next(); l != nil; l = q.next() {
		q.begin(l)
		begun = append(begun, l)
	}
	assert.Equal(t, len(begun), mostRunningOfLine, "look-ups of a network at once")
	for _, l := range begun {
		q.end(l)
	}
	for l := q.next(); l != nil; l = q.next() {
		q.begin(l)
		q.end(l)
	}
	assert.Equal(t, len(q.lines), 0, "lines that are left")
	host := netip.MustParseAddr("2001:db8::1")
	key := lineKey{networkOf(host), stranger}
	for i := range mostQueuedOfLine + 1 {
		_, ok := q.push(host, key)
		assert.Equal(t, ok, i < mostQueuedOfLine, "whether the line takes number %d", i)
		host = host.Next()
	}
}

// TestQueue_full lets the newest of a long line go for a newcomer, and where all lines are short any: not
// always the oldest.
func TestQueue_full(t *testing.T) {
	q := newQueue()
	for i := range mostQueued {
		push(q, i/200, i%200)
	}
	dropped, ok := push(q, 500, 1)
	newest := dropped.As4()[3] == 199 || dropped == netip.MustParseAddr("100.0.5.23")
	assert.ErrorIf(t, !ok || !newest, "a newcomer among six long lines: %v, %v went", ok, dropped)
	dropped, ok = push(q, 0, 250)
	assert.ErrorIf(t, ok && dropped.As4()[2] != 0, "one more of a long line pushes out %v", dropped)

	q = newQueue()
	for i := range mostQueued {
		push(q, i, 1)
	}
	inOrder := 0
	for i := range 50 {
		oldest, _ := at(i, 1)
		dropped, ok = push(q, 2000+i, 1)
		assert.ErrorIf(t, !ok || !dropped.IsValid(), "a newcomer among short lines: %v, %v went", ok, dropped)
		if dropped == oldest {
			inOrder++
		}
	}
	assert.ErrorIf(t, inOrder > 25, "of 50 that went %d were the oldest", inOrder)
	_, ok = push(q, 1500, 1)
	assert.ErrorIf(t, !ok, "a newcomer")
	_, ok = push(q, 1500, 2)
	assert.ErrorIf(t, ok, "a second address of a network pushes others out")
	assert.Equal(t, q.Len(), mostQueued, "what waits")
	dropped, ok = q.push(googlebot, lineKey{nearOf(googlebot), known})
	assert.ErrorIf(t, !ok || !dropped.IsValid(), "a known network has no room")
}
