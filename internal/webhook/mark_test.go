package webhook

import (
	"errors"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// This file has several nodes on one Redis, of which one holds the mark of an event.

// playMark plays a scene that says if it went as it should, up to five times, each with a new mark: where this machine, or Redis,
// stands still for longer than a node holds a mark, or than a node waits for Redis, another node tells too.
func playMark(t *testing.T, scene func(t *testing.T, client *goredis.Client) (right bool, seen any)) {
	t.Helper()
	client := redistest.Shared(t).Client(t)
	for tries := 1; ; tries++ {
		right, seen := scene(t, client)
		if right {
			return
		}
		assert.FatalIf(t, tries == 5, "%+v", seen)
		assert.Must(t, client.Del(t.Context(), markOf(nil).Name).Err())
	}
}

// attempt has a node tell of a client, and waits until it has tried.
func (n *node) attempt(t *testing.T, client *goredis.Client) {
	t.Helper()
	n.TellOfClient(thresholdEvent(), "some", &Key{"a", false}, markOf(redisOf{client}))
	assert.WaitFor(t, "an attempt", func() error {
		if n.of(retry) == 0 {
			return errors.New("there was none")
		}
		return nil
	})
}

// TestDispatcher_Tell has three nodes meet one event, of which one tells, with keys of any bytes.
func TestDispatcher_Tell(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]Key{"hashed": {"203.0.113.7", false}, "shown": {"<a>\"\\\n\u2028\x00\x1b[31m", true}, "no text": {"\xff\xfe", true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []caddytest.Message
			playMark(t, func(t *testing.T, client *goredis.Client) (right bool, seen any) {
				got = tellTogether(t, client, &key)
				return len(got) == 2, got
			})
			m := got[0]
			m.Verify(t)
			assert.ErrorIf(t, !idPattern.MatchString(m.ID) || m.Type != "redis_ratelimit.threshold" || !strings.Contains(m.Body, "9007199254740993"), "got %+v", m)
			field, want := "key_hash", "83a0ed3c3f172ff399cdd5db7f047c45cf9748ac4044246489c0f437e9c4410c"
			if key.Shown {
				field, want = "key", strings.ToValidUTF8(key.Text, "\ufffd\ufffd")
			}
			assert.ErrorIf(t, m.Data[field] != want || m.Data["policy"] != "api" || len(m.Data) != 4, "got %q, want %q", m.Data, want)
			assert.ErrorIf(t, got[1].ID == m.ID, "another ban has the id of the first")
		})
	}
}

// tellTogether has three nodes meet one event, one of them once more, and another one an event that is certainly new. It returns
// what they tell.
func tellTogether(t *testing.T, client *goredis.Client, key *Key) []caddytest.Message {
	t.Helper()
	box := caddytest.NewInbox(t)
	nodes := []*node{newNode(t, quick, box.URL), newNode(t, quick, box.URL), newNode(t, quick, box.URL)}
	for _, n := range nodes {
		n.TellOfClient(thresholdEvent(), "some", key, markOf(redisOf{client}))
	}
	m := received(t, box, 1, nodes...)[0]
	mark := assert.NoError(client.Get(t.Context(), markOf(nil).Name).Result())(t)
	left := assert.NoError(client.PTTL(t.Context(), markOf(nil).Name).Result())(t)
	nodes[0].TellOfClient(thresholdEvent(), "some", key, markOf(redisOf{client}))
	if got := received(t, box, 1, nodes...); len(got) > 1 { // several nodes have told
		return append(got, m)
	}
	assert.Equal(t, mark, "told "+m.ID, "the mark")
	assert.ErrorIf(t, left <= 0 || left > time.Minute, "it lives for %v", left)
	again := markOf(redisOf{client})
	again.New = true
	nodes[1].TellOfClient(thresholdEvent(), "some", key, again)
	return received(t, box, 2, nodes...)
}

// TestDispatcher_takesOver has a node end while it tells. Another one that has met the client's requests takes over, with
// the same id and body.
func TestDispatcher_takesOver(t *testing.T) {
	t.Parallel()
	playMark(t, func(t *testing.T, client *goredis.Client) (right bool, seen any) {
		box, slow := caddytest.NewInbox(t, 500, 500, 500), quick
		slow.shortestWait, slow.longestWait = time.Hour, time.Hour
		first, second, third := newNode(t, slow, box.URL), newNode(t, quick, box.URL), newNode(t, quick, box.URL)
		first.attempt(t, client)
		second.Look(Key{"a", false}, *markOf(redisOf{client}))
		third.Look(Key{"a", false}, *markOf(redisOf{client}))
		assert.Equal(t, first.Close(), 1, "the number of lost events")
		got := received(t, box, 4, second, third)
		for _, m := range got {
			assert.ErrorIf(t, m.ID != got[0].ID || m.Body != got[0].Body, "%+v differs from %+v", m, got[0])
		}
		told := second.of(delivered) + third.of(delivered)
		assert.ErrorIf(t, first.of(lost) != 1 || len(got) == 4 && told != 1, "counted %v, %v, %v", first.counts, second.counts, third.counts)
		return len(got) == 4, got
	})
}

// TestDispatcher_holdLost has a node that was away for longer than it holds the mark: it goes on only once the other node
// that has taken over ends, too.
func TestDispatcher_holdLost(t *testing.T) {
	t.Parallel()
	playMark(t, func(t *testing.T, client *goredis.Client) (right bool, seen any) { // the second node may have come too late
		box, away := caddytest.NewInbox(t, 500), quick
		away.shortestWait, away.longestWait = 5*time.Second, 5*time.Second
		first, second := newNode(t, away, box.URL), newNode(t, quick, box.URL)
		first.attempt(t, client)
		second.Look(Key{"a", false}, *markOf(redisOf{client}))
		got := received(t, box, 2, first, second)
		seen = []any{first.of(delivered), second.of(delivered), got}
		return len(got) == 2 && first.of(delivered) == 0 && second.of(delivered) == 1, seen
	})
}
