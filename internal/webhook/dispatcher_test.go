package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// quick is a pace for tests with a real Redis, whose clock cannot be moved.
var quick = pace{
	patience: time.Minute, shortestWait: time.Millisecond, longestWait: 20 * time.Millisecond, hold: 300 * time.Millisecond,
	lookDelay: time.Millisecond, lookInterval: time.Millisecond, burst: time.Minute, gather: 10 * time.Millisecond,
}

// tally counts the outcomes of a dispatcher.
type tally struct {
	mu      sync.Mutex
	counts  map[DeliveryStatus]int
	failing []error
	untold  int
}

func (c *tally) hooks() Hooks {
	c.counts = map[DeliveryStatus]int{}
	locked := func(change func()) {
		c.mu.Lock()
		defer c.mu.Unlock()
		change()
	}
	return Hooks{
		Count:     func(o DeliveryStatus, n int) { locked(func() { c.counts[o] += n }) },
		OnFailing: func(err error) { locked(func() { c.failing = append(c.failing, err) }) },
		OnUntold:  func(DeliveryStatus) { locked(func() { c.untold++ }) },
	}
}

func (c *tally) of(o DeliveryStatus) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[o]
}

// node is a dispatcher with what it counts.
type node struct {
	*Dispatcher
	tally
}

func newNode(t *testing.T, p pace, target string) *node {
	t.Helper()
	n := &node{}
	n.Dispatcher = newAt(p, assert.NoError(ParseURL(target))(t), assert.NoError(ParseSecret(caddytest.InboxSecret))(t), n.tally.hooks())
	t.Cleanup(func() { n.Close() })
	return n
}

// redisOf sends commands by a client.
type redisOf struct{ *goredis.Client }

func (r redisOf) Command(ctx context.Context, _ int8, words ...any) (any, error) {
	return r.Do(ctx, words...).Result()
}

// noRedis answers nothing.
type noRedis struct{}

func (noRedis) Command(context.Context, int8, ...any) (any, error) { return nil, errors.New("away") }

func markOf(r Redis) *Mark {
	return &Mark{Redis: r, Name: "rl:{a}:api:c1m:told:80%", Until: clock.Now().Add(time.Minute)}
}

func thresholdEvent() Event {
	return NewEvent("redis_ratelimit.threshold", map[string]any{"policy": "api", "limit": int64(9_007_199_254_740_993), "threshold": 80.5})
}

// await waits until the inbox has so many messages, and the nodes have nothing to do any more.
func await(t *testing.T, box *caddytest.Inbox, want int, nodes ...*node) []caddytest.Message {
	t.Helper()
	got := received(t, box, want, nodes...)
	assert.FatalIf(t, len(got) != want, "%d messages, want %d: %+v", len(got), want, got)
	return got
}

// received waits until the inbox has so many messages or more, and the nodes have nothing to do any more.
func received(t *testing.T, box *caddytest.Inbox, want int, nodes ...*node) []caddytest.Message {
	t.Helper()
	assert.WaitFor(t, fmt.Sprint(want, " messages"), func() error {
		busy := 0
		for _, n := range nodes {
			busy += n.Len() + n.looks.len()
		}
		if got := box.Messages(); len(got) < want || busy > 0 {
			return fmt.Errorf("%d messages, %d jobs", len(got), busy)
		}
		return nil
	})
	return box.Messages()
}

// TestDispatcher_retries has a receiver that fails some times: each attempt has the same id and body.
func TestDispatcher_retries(t *testing.T) {
	t.Parallel()
	client, box := redistest.Shared(t).Client(t), caddytest.NewInbox(t, 500, 302, 400, 429)
	n := newNode(t, quick, box.URL)
	n.TellOfClient(thresholdEvent(), "some", &Key{"a", false}, markOf(redisOf{client}))
	got := await(t, box, 5, n)
	for _, m := range got {
		m.Verify(t)
		assert.ErrorIf(t, m.ID != got[0].ID || m.Body != got[0].Body, "%+v differs from %+v", m, got[0])
	}
	assert.ErrorIf(t, n.of(retry) != 4 || n.of(delivered) != 1 || len(n.tally.failing) != 2 || n.tally.failing[0] == nil || n.tally.failing[1] != nil, "counted %v, failing %v", n.counts, n.tally.failing)
}

// TestDispatcher_flapping has every second attempt fail, which is no reason for a line of the log each time.
func TestDispatcher_flapping(t *testing.T) {
	t.Parallel()
	n := newNode(t, quick, "http://127.0.0.1")
	for range 100 {
		n.noteFailing(errURL)
		n.noteFailing(nil)
	}
	assert.ErrorIf(t, len(n.tally.failing) != 2 || n.tally.failing[0] == nil || n.tally.failing[1] != nil, "it reports %d times", len(n.tally.failing))
}

// TestDispatcher_looks has looks at marks that are told, absent, foreign or of another type: none begins to tell.
func TestDispatcher_looks(t *testing.T) {
	t.Parallel()
	client, box := redistest.Shared(t).Client(t), caddytest.NewInbox(t)
	n := newNode(t, quick, box.URL)
	for name, value := range map[string]string{
		"told": "told msg_A", "absent": "", "foreign": "\x00\xff", "of no event": "0 holder msg_A {}", "of no JSON": "0 holder msg_ABCDEFGHIJKLMNOPQRSTUVWXYZ nonsense",
		"with a header in its id": "0 holder msg_A\r\nX:y {\"type\":\"a\",\"timestamp\":\"2026-01-02T03:04:05Z\",\"data\":{}}", "huge": "0 h msg_ABCDEFGHIJKLMNOPQRSTUVWXYZ " + strings.Repeat("[", 1<<20),
	} {
		m := markOf(redisOf{client})
		if m.Name = name; value != "" {
			assert.Must(t, client.Set(t.Context(), name, value, time.Minute).Err())
		}
		n.Look(Key{"a", false}, *m)
	}
	assert.Must(t, client.RPush(t.Context(), "list", "a").Err())
	m := markOf(redisOf{client})
	m.Name = "list"
	n.Look(Key{"a", false}, *m)
	await(t, box, 0, n)
	n.TellOfClient(thresholdEvent(), "some", &Key{"a", false}, m) // a foreign value keeps no event from being told
	m = markOf(redisOf{client})
	m.Name = "foreign"
	n.TellOfClient(thresholdEvent(), "some", &Key{"a", false}, m)
	await(t, box, 2, n)
}

// TestDispatcher_withoutRedis tells of events that have no mark, or whose mark cannot be asked for.
func TestDispatcher_withoutRedis(t *testing.T) {
	t.Parallel()
	box := caddytest.NewInbox(t, 500)
	n := newNode(t, quick, box.URL)
	n.Tell(NewEvent("redis_ratelimit.data_lost", map[string]any{}), OfRedis)
	n.TellOfClient(thresholdEvent(), "some", &Key{"a", false}, markOf(noRedis{}))
	await(t, box, 3, n)
	ended := markOf(noRedis{})
	ended.Until = clock.Now()
	n.TellOfClient(thresholdEvent(), "some", &Key{"a", false}, ended)
	await(t, box, 4, n)
	assert.Equal(t, n.of(delivered), 3, "the number of deliveries")
}

// TestDispatcher_gone has a receiver that wants no event any more: none is sent until the next configuration.
func TestDispatcher_gone(t *testing.T) {
	t.Parallel()
	box := caddytest.NewInbox(t, http.StatusGone)
	n := newNode(t, quick, box.URL)
	for range 10 {
		n.Tell(thresholdEvent(), OfRedis)
		await(t, box, 1, n)
	}
	assert.ErrorIf(t, n.of(gone) != 10 || n.untold != 10, "counted %v, untold %d", n.counts, n.untold)
	assert.Equal(t, len(n.tally.failing), 0, "the number of reports that events are sent again")
	n.Resume()
	n.Tell(thresholdEvent(), OfRedis)
	await(t, box, 2, n)
}

// TestDispatcher_bounds fills the queue while the receiver hangs: the rest is dropped, nothing waits, and the end does not
// wait either.
func TestDispatcher_bounds(t *testing.T) {
	t.Parallel()
	hang, asked := make(chan struct{}), make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-hang
	}))
	defer server.Close()
	defer close(hang)
	n := newNode(t, quick, server.URL)
	for range 3 * mostDeliveries {
		n.Tell(thresholdEvent(), OfRedis)
		n.Look(Key{"a", false}, *markOf(noRedis{}))
	}
	for range deliveriesAtOnce {
		<-asked
	}
	assert.ErrorIf(t, n.Len() != mostDeliveries || n.of(dropped) != 2*mostDeliveries || n.looks.len() > mostLooks || len(asked) > 0, "%d in the queue, %v, %d more at once", n.Len(), n.counts, len(asked))
	stalls, begin := redistest.WatchStalls(t), time.Now()
	left, took := n.Close(), time.Since(begin)-stalls().Longest()
	assert.ErrorIf(t, left != mostDeliveries || n.of(lost) != mostDeliveries || took > 5*time.Second, "counted %v after %v", n.counts, took)
	assert.WaitFor(t, "the attempts end", func() error {
		if n.Len() > 0 {
			return errors.New("they have not")
		}
		return nil
	})
	n.Tell(thresholdEvent(), OfRedis)
	assert.ErrorIf(t, n.Len() != 0 || n.of(dropped) != 2*mostDeliveries+1, "after the end: %d in the queue, %v", n.Len(), n.counts)
}

// transport answers without a network.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestDispatcher_waits plays ten minutes in which no attempt succeeds. The waits grow, to half a minute, and follow
// Retry-After.
func TestDispatcher_waits(t *testing.T) {
	for name, test := range map[string]struct {
		answer         transport
		least, most    int
		shortest, last time.Duration
	}{
		"refuses": {func(*http.Request) (*http.Response, error) { return nil, &url.Error{Err: errors.New("refused")} }, 23, 50, time.Second / 2, 15 * time.Second},
		"hangs": {func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, 13, 30, 15 * time.Second, 30 * time.Second},
		"asks for a time": {func(*http.Request) (*http.Response, error) {
			header := http.Header{"Retry-After": {"20"}}
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: header, Body: http.NoBody}, nil
		}, 20, 31, 20 * time.Second, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var at []time.Time
				n := newNode(t, usualPace, "http://receiver/")
				n.receiver.transport = transport(func(r *http.Request) (*http.Response, error) {
					at = append(at, time.Now())
					return test.answer(r)
				})
				n.Tell(thresholdEvent(), OfRedis)
				<-time.After(11 * time.Minute)
				synctest.Wait()
				assert.ErrorIf(t, n.of(expired) != 1 || n.untold != 1 || n.Len() != 0 || n.of(retry) != len(at), "counted %v, %d attempts", n.counts, len(at))
				assert.FatalIf(t, len(at) < test.least || len(at) > test.most, "%d attempts", len(at))
				span, first, last := at[len(at)-1].Sub(at[0]), at[1].Sub(at[0]), at[len(at)-2].Sub(at[len(at)-3])
				assert.ErrorIf(t, first < test.shortest || last < test.last || span > 10*time.Minute || span < 9*time.Minute, "attempts after %v, then each %v, for %v", first, last, span)
			})
		})
	}
}

// TestDispatcher_order sends what waits in the order in which it came, once the receiver answers again.
func TestDispatcher_order(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		n := newNode(t, usualPace, "http://receiver/")
		n.receiver.transport = transport(func(r *http.Request) (*http.Response, error) {
			m := caddytest.Message{}
			_ = json.NewDecoder(r.Body).Decode(&m)
			mu.Lock()
			order = append(order, m.Type)
			mu.Unlock()
			<-time.After(time.Second)
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		})
		for i := range 100 {
			n.TellOfClient(NewEvent(fmt.Sprintf("%03d", i), nil), strconv.Itoa(i), nil, nil)
			synctest.Wait()
		}
		<-time.After(25 * time.Second)
		synctest.Wait()
		assert.FatalIf(t, len(order) != 100, "%d of 100 within 25 s, four at once", len(order))
		for i, kind := range order {
			at := assert.NoError(strconv.Atoi(kind))(t)
			assert.ErrorIf(t, at/4 != i/4, "%s is in place %d", kind, i)
		}
	})
}

// hangFor answers at once, but events of a type only after attempts have timed out.
func hangFor(kind string, got func(caddytest.Message)) transport {
	return func(r *http.Request) (*http.Response, error) {
		m := caddytest.Message{}
		_ = json.NewDecoder(r.Body).Decode(&m)
		if got(m); m.Type == kind {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	}
}

// TestDispatcher_ranks has clients cause far more events than the receiver takes, each of another kind, and every policy meet
// no request: what is of Redis is told at once, then that of policies.
func TestDispatcher_ranks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		told := map[string]int{}
		n := newNode(t, usualPace, "http://receiver/")
		n.receiver.transport = hangFor("client", func(m caddytest.Message) {
			mu.Lock()
			defer mu.Unlock()
			told[m.Type]++
		})
		for i := range 75_934 {
			n.TellOfClient(NewEvent("client", nil), strconv.Itoa(i), nil, nil)
		}
		synctest.Wait()
		assert.ErrorIf(t, n.Len() != mostOfClients || told["client"] != deliveriesAtOnce-2, "%d of clients wait, %d are sent", n.Len(), told["client"])
		for range 5000 {
			n.Tell(NewEvent("never met", nil), OfPolicies)
		}
		assert.Equal(t, n.Len(), mostDeliveries-ownOfRedis, "the number of events that wait, without those of Redis")
		for range ownOfRedis {
			n.Tell(NewEvent("outage", nil), OfRedis)
		}
		begin := time.Now()
		synctest.Wait()
		assert.ErrorIf(t, told["outage"] != ownOfRedis || told["never met"] == 0 || time.Since(begin) > 0, "told after %v: %v", time.Since(begin), told)
	})
}

// TestDispatcher_burst has clients cause 75,934 events of one kind within a minute, and some of another kind: the first are
// told one by one, the others as few with their count, and none is lost.
func TestDispatcher_burst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, others = 75_934, mostAlone
		var mu sync.Mutex
		told, messages, alone := map[string]int{}, 0, 0
		n := newNode(t, usualPace, "http://receiver/")
		n.receiver.transport = hangFor("", func(m caddytest.Message) {
			mu.Lock()
			defer mu.Unlock()
			messages++
			count, many := m.Data["count"].(float64)
			if !many {
				count, alone = 1, alone+1
			}
			assert.ErrorIf(t, many && count < 2 || m.Data["key_hash"] == "" || m.Data["policy"] != "api", "got %v", m.Data)
			told[m.Type] += int(count)
		})
		event := func(kind string) Event { return NewEvent(kind, map[string]any{"policy": "api"}) }
		for i := range clients {
			n.TellOfClient(event("banned"), "banned", &Key{Text: strconv.Itoa(i)}, markOf(noRedis{}))
			if i < others {
				n.TellOfClient(event("threshold"), "threshold", &Key{Text: strconv.Itoa(i)}, nil)
			}
			if i%1000 == 0 {
				<-time.After(time.Minute / (clients / 1000))
			}
		}
		<-time.After(time.Minute)
		synctest.Wait()
		assert.ErrorIf(t, told["banned"] != clients || told["threshold"] != others, "told of %v", told)
		assert.ErrorIf(t, alone < mostAlone+others || messages > 30, "%d messages, %d of single events", messages, alone)
		assert.ErrorIf(t, n.of(delivered) != messages || n.of(dropped) != 0, "counted %v", n.counts)
		n.TellOfClient(event("banned"), "banned", &Key{Text: "later"}, nil)
		synctest.Wait()
		assert.Equal(t, told["banned"], clients+1, "the number of events after a quiet minute, of which the next is told at once")
	})
}

// TestDispatcher_burstFails has a receiver that fails while a burst is told: each attempt has the same body, and later events
// are told by themselves. A burst for which there is no room counts all of its events.
func TestDispatcher_burstFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bodies := map[string]map[string]bool{}
		var mu sync.Mutex
		n := newNode(t, usualPace, "http://receiver/")
		n.receiver.transport = transport(func(r *http.Request) (*http.Response, error) {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			defer mu.Unlock()
			id := r.Header.Get("Webhook-Id")
			if bodies[id] == nil {
				bodies[id] = map[string]bool{}
			}
			bodies[id][string(body)] = true
			return nil, errors.New("refused")
		})
		for range 5 * mostAlone {
			n.TellOfClient(NewEvent("banned", nil), "banned", nil, nil)
			<-time.After(time.Second)
		}
		<-time.After(11 * time.Minute)
		assert.ErrorIf(t, n.of(expired) != len(bodies) || len(bodies) < mostAlone+3, "counted %v, %d ids", n.counts, len(bodies))
		for id, texts := range bodies {
			assert.ErrorIf(t, len(texts) != 1, "%s has several bodies: %v", id, texts)
		}
		n.Close()
		for range mostAlone + 1 {
			n.TellOfClient(NewEvent("banned", nil), "banned", nil, nil)
		}
		assert.ErrorIf(t, n.of(dropped) != mostAlone+1 || n.bursts.kinds["banned"].gathering != nil, "counted %v", n.counts)
	})
}

// TestBursts_kinds bounds what is remembered of kinds: those of long ago give their room.
func TestBursts_kinds(t *testing.T) {
	b := newBursts(usualPace)
	add := func(kind string, at clock.Moment) *delivery {
		j := &delivery{count: 1}
		b.join(j, kind, at)
		return j
	}
	for range mostAlone + 1 {
		add("gathers", 0)
	}
	for i := range 2 * mostKinds {
		add(strconv.Itoa(i), 0)
	}
	assert.Equal(t, len(b.kinds), mostKinds, "the number of kinds")
	for range 2 * mostAlone {
		assert.ErrorIf(t, add("no room", 0).gathers != nil, "a kind that is not remembered gathers")
	}
	add("later", clock.Moment(usualPace.burst))
	assert.ErrorIf(t, len(b.kinds) != 2 || b.kinds["gathers"].gathering == nil, "%d kinds are left", len(b.kinds))
}
