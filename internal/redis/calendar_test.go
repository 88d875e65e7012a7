package redis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // zones of machines without a table

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// nodes returns stores on one Redis, as nodes whose clocks are so far ahead of Redis's.
func nodes(t *testing.T, server *redistest.Server, ahead ...time.Duration) []*storetest.Candidate {
	t.Helper()
	var all []*storetest.Candidate
	for _, d := range ahead {
		s, r := stores.NewRedis(t, server)
		storetest.SetAhead(&r.Topology.AnyNode.Clock, -d)
		all = append(all, s)
	}
	return all
}

// TestCalendar_wrong_clock has nodes whose clocks are wrong and have not seen Redis's: they are corrected by
// the first answer, before which nothing is charged.
func TestCalendar_wrong_clock(t *testing.T) {
	const day = 24 * time.Hour
	server := redistest.Shared(t)
	client := server.Client(t)
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour, 3 * day, -3 * day, 400 * day, -20 * 365 * day, 100 * 365 * day} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) {
			client.FlushDB(context.Background())
			r := stores.OpenWithin(t, server, stores.Patience, limiter.KeyFormat{Prefix: "t"})
			storetest.SetAhead(&r.Topology.AnyNode.Clock, ahead)
			perDay, perYear := storetest.NewPolicy(t, limiter.Settings{Name: "a", Calendar: "day", Limit: 5}), storetest.NewPolicy(t, limiter.Settings{Name: "b", Calendar: "year", Limit: 100})
			other := storetest.NewPolicy(t, limiter.Settings{Name: "c", Limit: 10, Window: storetest.LongWindow(0)})
			for i := range int64(5) {
				checks := []limiter.Check{{Policy: perDay, Key: limiter.EncodeKey("k")}, {Policy: perYear, Key: limiter.EncodeKey("k"), Weight: 2}, {Policy: other, Key: limiter.EncodeKey("k")}}
				_, err := r.Decide(context.Background(), checks)
				assert.FatalIf(t, err != nil, "%+v", err)
				if !limiter.Allowed(checks) || checks[0].Result.Remaining != 4-i || checks[1].Result.Remaining != 98-2*i || checks[2].Result.Remaining != 9-i {
					t.Fatalf("decision %d: %+v", i, checks)
				}
			}
			assert.Retry(t, "the offset is corrected", func() (again bool, seen any) { // where this process stood still within a decision it is not
				offset := offsetOf(t, r, r)
				return offset.Abs() > time.Second, offset
			})
		})
	}
}

// jumpingClockFragment is a clock that jumps by a year from script to script, and back after seven: a node that learns
// of some jumps alone, as where this machine stalls between two readings of its clocks, never foresees the next one.
const jumpingClockFragment = `
local now_us = 1790000000000000 + redis.call('INCR', 'test:jumps') % 7 * 31536000000000
local grace = 3600000
`

// TestCalendar_jumping_clock decides nothing while Redis's clock jumps between the two sends, and charges
// no other policy of the request. The breaker stays closed.
func TestCalendar_jumping_clock(t *testing.T) {
	server := redistest.Shared(t)
	r := stores.OpenWithin(t, server, stores.Patience, limiter.KeyFormat{Prefix: "t"})
	r.Scripts.Clock = jumpingClockFragment
	p, other := storetest.NewPolicy(t, limiter.Settings{Name: "a", Calendar: "month", Limit: 5}), storetest.NewPolicy(t, limiter.Settings{Name: "b", Limit: 10, Window: storetest.LongWindow(0)})
	for range 20 {
		for _, op := range []redis.Operation{redis.OpTake, redis.OpPeek, redis.OpTake | redis.WithReceipt, redis.OpChange, redis.OpChange | redis.Owed, redis.OpPeek | redis.Counted} {
			checks := []limiter.Check{{Policy: other, Key: limiter.EncodeKey("k"), Weight: 1}, {Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}}
			n := r.Topology.AnyNode
			err := n.Decide(context.Background(), redis.NewCall(op, checks), checks, time.Minute)
			if limiter.Kind(err) != limiter.KindClock || !errors.Is(err, limiter.ErrUndecided) || !limiter.FailedAlone(err) || redis.MayHaveRun(err) {
				t.Fatalf("operation %d: %v", op, err)
			}
		}
	}
	ids := server.Client(t).Keys(context.Background(), "t:*").Val()
	assert.ErrorIf(t, len(ids) != 0, "undecided requests have left %v", ids)
	assert.ErrorIf(t, r.Topology.AnyNode.Breaker.Open(), "the breaker is open")
	text := fmt.Sprint(r.DecideWithin(context.Background(), []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k")}}))
	assert.ErrorIf(t, strings.Contains(text, "user_script"), "%+v", text)
}

// TestCalendar_tables plays two nodes whose tables of time zones differ, with clocks of their own that are
// wrong and a clock of Redis that runs backwards at times: never much more passes in a period than one table
// would let through.
func TestCalendar_tables(t *testing.T) {
	t.Parallel()
	const limit, steps = 5, 300
	server := redistest.Shared(t)
	for seed := range assert.Seeds(6, 6) {
		for _, skew := range []time.Duration{0, time.Hour, 10 * time.Hour} {
			t.Run(fmt.Sprintf("seed %d, %v", seed, skew), func(t *testing.T) {
				random, play := rand.New(rand.NewPCG(seed, 9)), assert.NewPlay(t, seed)
				server.Client(t).FlushDB(context.Background())
				candidates := nodes(t, server, []time.Duration{0, 3 * 24 * time.Hour}[random.IntN(2)], []time.Duration{0, -24 * time.Hour}[random.IntN(2)])
				policies := []*limiter.Policy{
					storetest.NewPolicy(t, limiter.Settings{Name: "p", Calendar: "day", Location: time.FixedZone("here", 0), Limit: limit}),
					storetest.NewPolicy(t, limiter.Settings{Name: "p", Calendar: "day", Location: time.FixedZone("there", -int(skew.Seconds())), Limit: limit}),
				}
				const day = 86_400_000_000
				at := storetest.Epoch
				passed, most := map[int64]int{}, limit
				if skew > 0 {
					most = 3 * limit
				}
				for range steps {
					at += []int64{0, 1, 1, 3_000_000, random.Int64N(day / 3)}[random.IntN(5)]
					if random.IntN(30) == 0 {
						at -= random.Int64N(3_000_000)
					}
					i := random.IntN(2)
					play.Step("epoch%+d node %d takes", at-storetest.Epoch, i)
					if candidates[i].Play(t, at, policies[i], 1).Passes() {
						passed[at/day]++
						n := passed[at/day]
						assert.ErrorIf(t, n > most, "%d units passed in period %d", n, at/day)
					}
				}
			})
		}
	}
}

// TestCalendar_matching goes on with the counts of a start that another table, another zone or another
// limit has written, and of none that is further away.
func TestCalendar_matching(t *testing.T) {
	begins := storetest.Micros(t, "2026-06-01T00:00:00Z")
	const hour = 3_600_000_000
	for _, test := range []struct {
		unit      string
		start     int64
		remaining int64
	}{
		{"day", begins, 3}, {"day", begins + hour, 3}, {"day", begins - hour, 3}, {"day", begins - 24*hour, 10},
		{"day", begins + 12*hour, 3}, {"day", begins - 12*hour, 3}, {"day", begins - 12*hour - 1, 10},
		{"day", begins + 24*hour, 3}, {"day", begins + 48*hour, 10}, {"day", begins + 1000*24*hour, 10}, {"day", 0, 10},
		{"month", begins + 10*24*hour, 3}, {"month", begins - 30*24*hour, 10}, {"year", storetest.Micros(t, "2026-01-01T00:00:00Z") - 13*hour, 3},
	} {
		p := storetest.NewPolicy(t, limiter.Settings{Calendar: test.unit, Limit: 10})
		here, m := stores.NewMemory()
		there, r := stores.NewRedis(t, redistest.Shared(t))
		here.Play(t, begins, p, 0) // makes the table
		m.TableOf(p).Shards.Of("k").Put("k", kernel.State{Numbers: kernel.Numbers{A: test.start, B: 7}})
		r.Client().Set(context.Background(), r.RedisKey(p, limiter.EncodeKey("k")), redistest.Doubles(float64(test.start), 7), time.Hour)
		for _, s := range []*storetest.Candidate{here, there} {
			if r := s.Play(t, begins+hour/2, p, 0); r.Remaining != test.remaining {
				t.Errorf("%s, %s begun %+d h: %d remain, want %d", s.Name, test.unit, (test.start-begins)/hour, r.Remaining, test.remaining)
			}
		}
	}
}

// offsetOf returns the offset of a store after a request.
func offsetOf(t *testing.T, s limiter.Store, r *redis.Store) time.Duration {
	t.Helper()
	storetest.Decide(t, s, limiter.Check{Policy: storetest.DayPolicy(t, "offset", limiter.GCRA, 1_000), Key: limiter.EncodeKey("k")})
	offset, known := r.Offset(0)
	assert.ErrorIf(t, !known, "no offset after a decision")
	return offset
}

func TestRedis_offset(t *testing.T) {
	for _, ahead := range []time.Duration{0, -3 * time.Hour} {
		r := stores.Open(t, redistest.StartAt(t, ahead))
		assert.Retry(t, "the offset is known", func() (again bool, seen any) {
			got := offsetOf(t, r, r)
			return (got - ahead).Abs() > 50*time.Millisecond, fmt.Sprintf("an offset of %v; want %v", got, ahead)
		})
	}
}

// TestRedis_offset_set sets Redis's clock between requests. It stands still after that.
func TestRedis_offset_set(t *testing.T) {
	s, r := stores.NewRedis(t, redistest.Shared(t))
	for _, ahead := range []time.Duration{0, time.Hour, -2 * time.Hour, 10 * time.Second} {
		set := time.Now()
		s.SetClock(set.Add(ahead).UnixMicro())
		got := offsetOf(t, s, r)
		if least := ahead - time.Since(set) - time.Millisecond; got < least || got > ahead {
			t.Errorf("an offset of %v after the clock was set; want %v to %v", got, least, ahead)
		}
	}
}
