package livepage

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestLookup_Get asks often for an answer that takes long: questions wait for a little, never more than one is looked up, and
// not more often than a twentieth of the time takes.
func TestLookup_Get(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Lookup[int]{Every: time.Second, Patience: 100 * time.Millisecond}
		var looks, under atomic.Int32
		look := func(takes time.Duration) func() int {
			return func() int {
				assert.ErrorIf(t, under.Add(1) > 1, "two are looked up at once")
				<-time.After(takes)
				under.Add(-1)
				return int(looks.Add(1))
			}
		}
		get := func(owner string, takes time.Duration) string {
			began := time.Now()
			answer, found := l.Get(owner, look(takes))
			return fmt.Sprint(answer, found, time.Since(began))
		}
		assert.Equal(t, get("a", 10*time.Millisecond), "1 true 10ms", "the first")
		assert.Equal(t, get("a", 0), "1 true 0s", "at once again")
		<-time.After(time.Second)
		assert.Equal(t, get("a", 10*time.Second), "1 true 100ms", "a long one begins")
		assert.Equal(t, get("a", 0), "1 true 100ms", "it is under way")
		<-time.After(10 * time.Second)
		assert.Equal(t, get("a", 0), "2 true 0s", "it has ended")
		<-time.After(180 * time.Second)
		assert.Equal(t, get("a", 0), "2 true 0s", "it took ten seconds, so that the next comes after 200")
		<-time.After(20 * time.Second)
		assert.Equal(t, get("a", 0), "3 true 0s", "the next")
	})
}

// TestLookup_idle looks up again although a lookup has waited for long: waiting is no load.
func TestLookup_idle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Lookup[int]{Every: 10 * time.Second, Idle: 2 * time.Second, Patience: time.Minute}
		look := func() int { <-time.After(2*time.Second + 100*time.Millisecond); return 1 }
		l.Get("a", look)
		<-time.After(7800 * time.Millisecond)
		began := time.Now()
		l.Get("a", look)
		assert.Equal(t, time.Since(began), 0, "a question before ten seconds")
		<-time.After(100 * time.Millisecond)
		began = time.Now()
		l.Get("a", look)
		assert.Equal(t, time.Since(began), 2100*time.Millisecond, "a question after ten seconds")
	})
}

// TestLookup_owner drops an answer to another owner, also one that is under way.
func TestLookup_owner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Lookup[string]{Every: time.Second, Patience: 100 * time.Millisecond}
		slow := func() string {
			<-time.After(time.Minute)
			return "slow"
		}
		_, found := l.Get("a", slow)
		assert.ErrorIf(t, found, "an answer before there is one")
		answer, found := l.Get("b", func() string { return "b" })
		assert.ErrorIf(t, !found || answer != "b", "another owner gets %q", answer)
		<-time.After(2 * time.Minute)
		answer, _ = l.Get("b", slow)
		assert.Equal(t, answer, "b", "the answer after that of the first owner")
		_, found = l.Get("a", slow)
		assert.ErrorIf(t, found, "the first owner gets an answer to another")
		<-time.After(2 * time.Minute)
	})
}
