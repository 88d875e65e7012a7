package gate

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// lookingAt is a page with a clock of its own, and what counts how often quotas are read.
type lookingAt struct {
	*usageCache
	clock time.Time
	reads int64
	err   error
}

func newLooking() *lookingAt {
	l := &lookingAt{usageCache: newUsageCache(), clock: time.Now()}
	l.now = func() time.Time { return l.clock }
	return l
}

// at returns the remaining units of the answer, which are the number of reads so far.
func (l *lookingAt) at(t *testing.T, c limiter.Check) int64 {
	t.Helper()
	answer, err := l.get([]limiter.Check{c}, func(checks []limiter.Check) (limiter.Source, error) {
		l.reads++
		checks[0].Result.Remaining = l.reads
		return limiter.SourceRedis, l.err
	})
	assert.FatalIf(t, !errors.Is(err, l.err), "%v", err)
	if err != nil {
		return -1
	}
	return answer.checks[0].Result.Remaining
}

func checkOf(t *testing.T, limit int64, key string) limiter.Check {
	t.Helper()
	policy := assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "looked", Limit: limit, Window: time.Hour}))(t)
	return limiter.Check{Policy: policy, Key: limiter.EncodeKey(key), Weight: 1}
}

// TestLooks_look reads anew ten times, then ten times a second, whatever comes.
func TestLooks_look(t *testing.T) {
	l, c := newLooking(), checkOf(t, 5, "a")
	for i := range int64(10) {
		got := l.at(t, c)
		assert.FatalIf(t, got != i+1, "look %d: the answer of read %d", i, got)
	}
	for range 1000 {
		got := l.at(t, c)
		assert.FatalIf(t, got != 10, "got the answer of read %d", got)
	}
	for range 1000 {
		l.clock = l.clock.Add(time.Millisecond)
		l.at(t, c)
	}
	assert.ErrorIf(t, l.reads < 19 || l.reads > 21, "%d reads in a second of looks, want 10 more than before", l.reads)
	l.clock = l.clock.Add(freshPace)
	if before := l.reads; l.at(t, c) != before+1 {
		t.Error("an answer is older than 0.1 s")
	}
	l.clock = l.clock.Add(time.Minute)
	before := l.reads
	for range 10 {
		l.at(t, c)
	}
	assert.ErrorIf(t, l.reads != before+10, "%d reads of ten looks after a minute", l.reads-before)
}

// TestLooks_look_others keeps clients, limits, weights and blocks apart, and keeps no error.
func TestLooks_look_others(t *testing.T) {
	l, c := newLooking(), checkOf(t, 5, "a")
	for range 20 {
		l.at(t, c)
	}
	heavy, blocked := c, c
	heavy.Weight = 2
	blocked.Result.RetryAfter = limiter.Never
	for name, other := range map[string]limiter.Check{"key": checkOf(t, 5, "b"), "limit": checkOf(t, 6, "a"), "weight": heavy, "block": blocked} {
		before := l.reads
		assert.ErrorIf(t, l.at(t, other) != before+1, "another %s gets an answer that is not its own", name)
	}
	l.err = errors.New("no answer")
	fresh := checkOf(t, 5, "c")
	for range 30 {
		assert.FatalIf(t, l.at(t, fresh) != -1, "an error is an answer")
	}
}

// TestLooks_look_bounded has more clients than are kept.
func TestLooks_look_bounded(t *testing.T) {
	l := newLooking()
	for i := range 3 * maxUsageClients {
		c := checkOf(t, 5, fmt.Sprint(i))
		before := l.reads
		assert.FatalIf(t, l.at(t, c) != before+1, "a new client gets the answer of another")
	}
	assert.ErrorIf(t, len(l.clients) > maxUsageClients, "%d clients are kept", len(l.clients))
	l.clock = l.clock.Add(time.Minute)
	l.at(t, checkOf(t, 5, "late"))
	assert.ErrorIf(t, len(l.clients) != 1, "%d clients are kept after a minute", len(l.clients))
}

// TestParseUsagePath refuses the paths that Caddy's matcher compares with no request's, and no others.
func TestParseUsagePath(t *testing.T) {
	for _, path := range []string{"/", "/x/", "//x", "/x//y", "/a b", "/a%20b", "/A%2fb", "/a%2Fb^c d", "/%2e%2e/x", "/100%25", "/é", "/x;y:z"} {
		_, err := ParseUsagePath(path)
		assert.ErrorIf(t, err != nil, "%v", err)
	}
	for _, path := range []string{"/./x", "/a/../x", "/x/.", "/..", "//../x", "/a%20b/../x", "/100%", "/a%2", "/a%zz", "x", "/x?y", "/x#y", "/x*", "/{x}", "/x "} {
		_, err := ParseUsagePath(path)
		assert.ErrorIf(t, err == nil, "usage %s is accepted", path)
	}
}
