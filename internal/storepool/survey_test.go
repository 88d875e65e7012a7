package storepool

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

var format = limiter.KeyFormat{Prefix: "rl"}

// node is a process that polls overrides and answers questions.
type node struct {
	*Survey
	live  *overrides.Live
	asked atomic.Int64 // for an answer
	asks  atomic.Int64 // questions of its own
}

// newNode returns a node whose answers are its name, the subject and bytes that are no text.
func newNode(t testing.TB, name string, mode dial.Mode, addresses ...string) *node {
	t.Helper()
	client := assert.NoError(dial.New(dial.Connection{Mode: mode, Addresses: addresses, Timeout: 20 * time.Second}))(t)
	store := redis.New(client, redis.Setup{KeyFormat: format})
	t.Cleanup(func() { _ = store.Close() })
	n := &node{}
	n.Survey = NewSurvey(store, format, rand.Text(), func(subject string) []byte {
		n.asked.Add(1)
		return []byte(name + "\x00\xff\n" + subject)
	})
	n.live = overrides.NewShared(store, format, nil, overrides.Hooks{OnVersion: n.Look})
	t.Cleanup(n.live.Close)
	return n
}

// wantAnswers asks a question, which the named nodes answer. It asks again where answers are missing: a node may stand still
// for longer than [SurveyPatience].
func (n *node) wantAnswers(t testing.TB, subject string, nodes ...string) {
	t.Helper()
	assert.Retry(t, "all nodes answer about "+subject, func() (again bool, seen any) {
		n.asks.Add(1)
		answers, err := n.Ask(t.Context(), subject)
		slices.Sort(answers)
		return err != nil || !slices.Equal(answers, answersOf(subject, nodes...)), answers
	})
}

// answersOf are the answers of nodes about a subject.
func answersOf(subject string, nodes ...string) (answers []string) {
	for _, name := range nodes {
		answers = append(answers, name+"\x00\xff\n"+subject)
	}
	return answers
}

// TestSurvey asks nodes that poll, on one Redis and on a Cluster, with overrides and without, two at once and one node late.
func TestSurvey(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		mode  dial.Mode
		where func(t *testing.T) []string
	}{
		{"standalone", dial.Standalone, func(t *testing.T) []string { t.Helper(); return []string{redistest.Start(t).Addr} }},
		{"cluster", dial.Cluster, func(t *testing.T) (addresses []string) {
			t.Helper()
			for _, s := range redistest.StartCluster(t) {
				addresses = append(addresses, s.Addr)
			}
			return addresses
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			addresses := test.where(t)
			a, b, c := newNode(t, "a", test.mode, addresses...), newNode(t, "b", test.mode, addresses...), newNode(t, "c", test.mode, addresses...)
			for _, n := range []*node{a, b, c} {
				n.live.Start()
			}
			a.wantAnswers(t, "api", "b", "c")
			assert.Equal(t, a.Others(), 2, "other nodes that have answered")
			_, err := b.live.Put(t.Context(), b.live.Target("api", limiter.EncodeKey("k")), overrides.Spec{Action: overrides.Block}, 0)
			assert.Must(t, err)
			time.AfterFunc(SurveyPatience/8, newNode(t, "d", test.mode, addresses...).live.Start) // it comes late
			var both sync.WaitGroup
			both.Go(func() { a.wantAnswers(t, "*", "b", "c", "d") })
			both.Go(func() { b.wantAnswers(t, "login", "a", "c", "d") })
			both.Go(func() { c.wantAnswers(t, "d", "a", "b", "d") })
			both.Wait()
			assert.Equal(t, a.live.Len(), 1, "overrides of a")
			assert.ErrorIf(t, a.asked.Load() > b.asks.Load()+c.asks.Load(), "a answers %d times", a.asked.Load())
			assert.ErrorIf(t, b.asked.Load() > a.asks.Load()+c.asks.Load(), "b answers %d times", b.asked.Load())
		})
	}
}

// counts counts the commands of a Redis by name.
func counts(t testing.TB, s *redistest.Server) map[string]int {
	t.Helper()
	found := map[string]int{}
	for line := range strings.Lines(s.Client(t).Info(t.Context(), "commandstats").Val()) {
		name, numbers, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		n := 0
		_, _ = fmt.Sscanf(numbers, "%d", &n)
		found[name] = n
	}
	return found
}

// TestSurvey_version has a question change nothing for the overrides: no node reads entries again, not one of an earlier
// version either, which has no survey. A question counts zeros, and a change of an override ends them.
func TestSurvey_version(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	a, old := newNode(t, "a", dial.Standalone, server.Addr), newNode(t, "old", dial.Standalone, server.Addr)
	put := func(client string) {
		t.Helper()
		_, err := a.live.Put(t.Context(), a.live.Target("api", limiter.EncodeKey(client)), overrides.Spec{Action: overrides.Block}, 0)
		assert.Must(t, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing waits for answers
	ask := func() { t.Helper(); _, _ = a.Ask(ctx, "x") }
	const key = "rl:{%!overrides}:version"
	refresh := func() {
		t.Helper()
		assert.Must(t, a.live.Refresh(t.Context()))
		assert.Must(t, old.live.Refresh(t.Context()))
	}
	mark := func() {
		t.Helper()
		reply := assert.NoError(a.eval(t.Context(), askScript, key, a.questions(), rand.Text(), "x", 10_000, mostQuestions))(t)
		assert.Equal(t, reply, any("asked"), "what the script says")
	}
	ask()
	mark()
	assert.Equal(t, client.Get(t.Context(), key).Val(), "0 00", "a version without overrides")
	assert.ErrorIf(t, client.PTTL(t.Context(), key).Val() <= 0, "it stays")
	refresh()
	put("one")
	put("two")
	refresh()
	version := client.Get(t.Context(), key).Val()
	number, _, _ := strings.Cut(version, " ")
	before := counts(t, server)
	for i := range 9 {
		mark()
		refresh()
		assert.Equal(t, client.Get(t.Context(), key).Val(), number+" "+strings.Repeat("0", i%8+1)+"2", "the version")
	}
	after := counts(t, server)
	assert.ErrorIf(t, after["hscan"] != before["hscan"] || after["hlen"] != before["hlen"], "entries are read again: %v, before %v", after, before)
	assert.Equal(t, client.PTTL(t.Context(), key).Val(), -1, "the TTL of the version")
	later := newNode(t, "later", dial.Standalone, server.Addr) // loads all, as an earlier version does that starts meanwhile
	assert.Must(t, later.live.Refresh(t.Context()))
	assert.Equal(t, later.live.Len(), 2, "overrides of a node that starts meanwhile")
	assert.Equal(t, client.Get(t.Context(), key).Val(), number+" 02", "the version after it")
	put("three")
	refresh()
	assert.Equal(t, old.live.Len(), 3, "overrides after a change")
	assert.ErrorIf(t, strings.Contains(client.Get(t.Context(), key).Val(), " 0"), "the change keeps zeros")
}

// TestSurvey_idle costs nothing while nothing is asked: nodes read the version alone.
func TestSurvey_idle(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := newNode(t, "n", dial.Standalone, server.Addr)
	n.live.Start()
	begun := counts(t, server)["get"]
	assert.Retry(t, "it polls", func() (again bool, seen any) {
		gets := counts(t, server)["get"] - begun
		return gets < 6, gets
	})
	keys := server.Client(t).Keys(t.Context(), "*").Val()
	assert.Equal(t, keys, []string{"rl:{%!overrides}:marker"}, "keys")
	// The marker's script reads one more, once in five seconds.
	assert.ErrorIf(t, n.asked.Load() != 0, "it was asked")
}

// TestSurvey_foreign finds texts of others in its keys.
func TestSurvey_foreign(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	n := newNode(t, "n", dial.Standalone, server.Addr)
	set := func(key, text string) {
		t.Helper()
		assert.Must(t, client.Set(t.Context(), key, text, 0).Err())
	}
	set(n.name("version"), "none of ours")
	_, err := n.Ask(t.Context(), "x")
	assert.ErrorIf(t, !errors.Is(err, limiter.ErrUndecided) || !strings.Contains(err.Error(), "delete it"), "a foreign version: %v", err)
	set(n.name("version"), "5 7")
	id := rand.Text()
	for _, text := range []string{
		"", "\n\n", "1 2", strings.Repeat("x", 1<<20), "9 short x\n", "9 " + id + " " + strings.Repeat("x", 65) + "\n", "9 " + id + " a:b\n", "9 " + id + " a}b\n",
		"\xff\x00 " + id + " x y\n", strings.Repeat("9 "+id+" {\n", 5000),
	} {
		set(n.questions(), text)
		assert.Must(t, n.Look(t.Context()))
		assert.Equal(t, n.asked.Load(), 0, "answers to a foreign text")
		reply := assert.NoError(n.eval(t.Context(), askScript, n.name("version"), n.questions(), id, "x", 10_000, mostQuestions))(t)
		assert.ErrorIf(t, reply != "asked" && reply != "full", "asking beside %.20q: %v", text, reply)
	}
	set(n.roster(id), "a name\n"+rand.Text()+"\n"+n.node+"\n\xff\n"+strings.Repeat("A", 100_000))
	answers := assert.NoError(n.collect(t.Context(), id, "x"))(t)
	assert.Equal(t, len(answers), 0, "answers of no node")
	assert.Must(t, client.Del(t.Context(), n.questions()).Err())
	assert.Must(t, client.LPush(t.Context(), n.questions(), "x").Err())
	assert.ErrorIf(t, n.Look(t.Context()) == nil, "a list of questions is read")
}

// TestSurvey_full asks more than can be asked at once.
func TestSurvey_full(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n, other := newNode(t, "n", dial.Standalone, server.Addr), newNode(t, "other", dial.Standalone, server.Addr)
	var asks sync.WaitGroup
	var busy atomic.Int64
	for i := range mostQuestions + 3 {
		asks.Go(func() {
			if _, err := n.Ask(t.Context(), fmt.Sprint("x", i)); errors.Is(err, ErrSurveyBusy) {
				busy.Add(1)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	asks.Wait()
	assert.Equal(t, busy.Load(), 3, "questions that were too many")
	assert.Must(t, other.Look(t.Context()))
	assert.Must(t, other.Look(t.Context()))
	assert.Equal(t, other.asked.Load(), mostQuestions, "questions that the other node answers")
	ttl := server.Client(t).PTTL(t.Context(), other.answerOf(other.node, "x0")).Val()
	keys := server.Client(t).Keys(t.Context(), "*").Val()
	assert.ErrorIf(t, len(keys) > 0 && ttl > answerLife, "an answer stays for %v", ttl)
	for _, k := range keys {
		assert.ErrorIf(t, server.Client(t).PTTL(t.Context(), k).Val() <= 0, "%s stays", k)
	}
}

// TestSurvey_Others counts the nodes that have answered in the last minute, and forgets others.
func TestSurvey_Others(t *testing.T) {
	t.Parallel()
	s := NewSurvey(nil, format, rand.Text(), nil)
	assert.Equal(t, s.Others(), 0, "nodes before a question")
	s.note("A")
	s.note("B")
	s.note("A")
	assert.Equal(t, s.Others(), 2, "nodes that have answered")
	s.seen["A"] = time.Now().Add(-answerLife - time.Second)
	assert.Equal(t, s.Others(), 1, "nodes after one has left")
	assert.Equal(t, len(s.seen), 1, "names that are kept")
}

// TestSurvey_away has no Redis that answers.
func TestSurvey_away(t *testing.T) {
	t.Parallel()
	n := newNode(t, "n", dial.Standalone, redistest.FreeAddr(t))
	_, err := n.Ask(t.Context(), "x")
	assert.ErrorIf(t, !errors.Is(err, limiter.ErrUndecided), "asking: %v", err)
	assert.ErrorIf(t, n.Look(t.Context()) == nil, "there are questions")
}
