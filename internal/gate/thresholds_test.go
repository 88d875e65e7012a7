package gate

import (
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/waiting"
)

// slowListener is a listener that does not return before it is told to.
type slowListener struct {
	Listener
	begun, end chan struct{}
}

func (slowListener) ListensForThresholds() bool { return true }
func (slowListener) TakesSigns() (_, _ bool)    { return false, false }

func (l slowListener) ThresholdsLater(_ Event, find func() ([]rule.Fraction, time.Duration)) bool {
	go func() {
		if marks, _ := find(); len(marks) > 0 {
			close(l.begun)
			<-l.end
		}
	}()
	return true
}

// TestNotifyCost_slowListener has a listener wait while the configuration ends. It keeps no store open.
func TestNotifyCost_slowListener(t *testing.T) {
	t.Parallel()
	policy := assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "notified", Limit: 10, Window: time.Hour}))(t)
	pool := storepool.NewPool(func() *storepool.Stores { return nil }, storepool.Metrics{}, waiting.NewRoom(1))
	stores := assert.NoError(pool.Open(nil))(t)
	check := limiter.Check{Policy: policy, Key: limiter.EncodeKey("a"), Weight: 10}
	assert.NoError(stores.Decide(t.Context(), []limiter.Check{check}))(t)
	marks := assert.NoError(rule.ParseMarks([]float64{100}))(t)
	listener := slowListener{begun: make(chan struct{}), end: make(chan struct{})}
	l := New(Limiter{Rules: rule.NewSet([]rule.Rule{{Policy: policy, Notify: marks}}), Stores: stores, Listener: listener, Process: &Process{Thresholds: clock.NewEventFilter()}})
	l.notifyCost(stores, &PendingCheck{Check: check, Rule: &l.Rules.Rules[0], Source: limiter.SourceMemory}, 10)
	<-listener.begun
	last := stores.EndUse()
	assert.ErrorIf(t, !last, "the stores are in use while a listener waits")
	close(listener.end)
}
