package storepool

import (
	"fmt"
	"math"
	"testing"
	"time"
	"unsafe"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// sampled are names whose points are made by moving a clock.
type sampled struct {
	*nameTable
	at     time.Time
	gauges Gauges
}

func newSampled(t testing.TB) *sampled {
	s := &sampled{at: time.Now()}
	s.nameTable = newNameTable(func() map[string]bool { return nil }, func() time.Time { return s.at })
	s.Gauges = func() Gauges { return s.gauges }
	t.Cleanup(s.end)
	return s
}

// step ends so many steps, of which the timer misses all but the last.
func (s *sampled) step(steps int) {
	s.at = s.at.Add(time.Duration(steps) * HistoryStep)
	s.history.sample()
}

// TestNames_Points counts requests of each kind, steps that the timer misses, and a policy that meets nothing.
func TestNames_Points(t *testing.T) {
	s := newSampled(t)
	met, other := s.Use("met"), s.Use("never")
	latest, points := s.Points(0)
	assert.ErrorIf(t, latest != 0 || len(points) != 0, "%d points before the first step: %v", latest, points)
	met.Count(limiter.OutcomeAllowed, limiter.SourceRedis)
	met.Count(limiter.OutcomeDenied, limiter.SourceDenyCache)
	met.CountDeniedByOthers()
	s.step(1)
	met.Count(limiter.OutcomeDryDenied, limiter.SourceMemory)
	met.Count(limiter.OutcomeDryAllowed, limiter.SourceMemory)
	met.CountBan()
	s.gauges = Gauges{Running: map[string]int64{"met": 7}, Waiting: map[string]int64{"met": math.MaxInt64}}
	s.step(2)
	s.history.sample() // at once again
	latest, points = s.Points(0)
	want := []Point{{Requests: 3, Denied: 1}, {}, {Requests: 2, WouldBeDenied: 1, Bans: 1, Running: 7, Waiting: math.MaxUint32}}
	assert.Equal(t, fmt.Sprint(latest, points), fmt.Sprint(3, map[string][]Point{"met": want}), "the points")
	for behind, text := range map[int64]string{
		1: fmt.Sprint(map[string][]Point{"met": want[1:]}), 2: fmt.Sprint(map[string][]Point{"met": want[2:]}), 3: "map[]",
		4: "map[]", math.MaxInt64: "map[]", -1: fmt.Sprint(map[string][]Point{"met": want}), math.MinInt64: fmt.Sprint(map[string][]Point{"met": want}),
	} {
		_, points = s.Points(behind)
		assert.Equal(t, fmt.Sprint(points), text, "behind %d", behind)
	}
	assert.ErrorIf(t, other.track.ring != nil, "a policy that has met nothing has points")
}

// TestNames_Points_last has more steps than there are points: the first are forgotten, those that the timer misses are
// empty, and a name that comes late begins within.
func TestNames_Points_last(t *testing.T) {
	s := newSampled(t)
	p := s.Use("p")
	for range 2 * HistoryPoints {
		p.Count(limiter.OutcomeAllowed, limiter.SourceRedis)
		s.step(1)
	}
	late := s.Use("late")
	late.Count(limiter.OutcomeAllowed, limiter.SourceRedis)
	s.step(1)
	latest, points := s.Points(0)
	requests := func(name string) (sum int) {
		for _, point := range points[name] {
			sum += int(point.Requests)
		}
		return sum
	}
	assert.Equal(t, fmt.Sprint(latest, len(points["p"]), requests("p"), len(points["late"]), requests("late")),
		fmt.Sprint(2*HistoryPoints+1, HistoryPoints, HistoryPoints-1, HistoryPoints, 1), "the last point, the numbers of points, their requests")
	s.step(HistoryPoints - 1)
	_, points = s.Points(0)
	assert.Equal(t, fmt.Sprint(requests("late"), points["p"] == nil), "1 true", "what is left of each after a pause")
	s.step(5 * HistoryPoints)
	_, points = s.Points(0)
	assert.Equal(t, len(points), 0, "policies after a pause of five times ten minutes")
}

// TestNames_timer has the timer set from the first name until the last ends.
func TestNames_timer(t *testing.T) {
	s := newSampled(t)
	assert.ErrorIf(t, s.history.timer.IsSet(), "a timer without names")
	p := s.Use("p")
	assert.ErrorIf(t, !s.history.timer.IsSet(), "no timer")
	s.history.timer.Stop()
	s.history.sample()
	assert.ErrorIf(t, !s.history.timer.IsSet(), "no timer after a point")
	s.Release([]*PolicyStats{p})
	s.history.timer.Stop()
	s.history.sample()
	assert.ErrorIf(t, s.history.timer.IsSet(), "a timer after the last name")
}

// BenchmarkNames_sample adds a point to 2,000 policies, each with decisions of four kinds.
func BenchmarkNames_sample(b *testing.B) {
	s := newSampled(b)
	for i := range 2000 {
		p := s.Use(fmt.Sprintf("policy%d", i))
		for _, o := range Outcomes[:4] {
			p.Count(o, limiter.SourceRedis)
		}
	}
	s.step(1)
	for b.Loop() {
		s.step(1)
	}
	b.ReportMetric(float64(unsafe.Sizeof(track{})+unsafe.Sizeof([HistoryPoints]Point{})), "bytes/policy")
}
