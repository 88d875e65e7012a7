package redis

import (
	"errors"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// refused is a failure that opens a breaker at once.
var refused = &limiter.UndecidedError{Kind: "refused", Err: errors.New("refused")}

// newTestBreaker returns a breaker on a clock that the test moves, and counts of its reports.
func newTestBreaker() (b *Breaker, instant *clock.Moment, opened, closed *int) {
	instant, opened, closed = new(clock.Moment), new(int), new(int)
	b = &Breaker{Now: func() clock.Moment { return *instant }, OnOpen: func(error) { *opened++ }, OnClose: func() { *closed++ }}
	return b, instant, opened, closed
}

func TestBreaker_retire(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]func(b *Breaker){
		"a probe that succeeds":   func(b *Breaker) { b.Close() },
		"a failure of a request":  func(b *Breaker) { b.Failure(refused) },
		"a request that succeeds": func(b *Breaker) { b.Success(0) },
		"nothing":                 func(*Breaker) {},
	} {
		t.Run(name, func(t *testing.T) {
			b, _, opened, closed := newTestBreaker()
			b.Failure(refused)
			first := b.retire()
			late(b)
			again := b.retire()
			if !first || again || *opened != 1 || *closed != 0 || b.Open() || b.closed() {
				t.Errorf("an outage to end: %v, again: %v; %d openings and %d closings, open %v, closed %v", first, again, *opened, *closed, b.Open(), b.closed())
			}
		})
	}
}

// TestBreaker_LastFailure has the last failure count for [DoubtSpan], until a request or a probe is decided.
func TestBreaker_LastFailure(t *testing.T) {
	t.Parallel()
	slow := &limiter.UndecidedError{Kind: "timeout", Err: errors.New("slow")}
	for name, test := range map[string]struct {
		do   func(b *Breaker, instant *clock.Moment)
		want error
	}{
		"nothing":                  {func(*Breaker, *clock.Moment) {}, nil},
		"a success":                {func(b *Breaker, _ *clock.Moment) { b.Success(0) }, nil},
		"a failure":                {func(b *Breaker, _ *clock.Moment) { b.Failure(slow) }, slow},
		"a failure before the end": {func(b *Breaker, now *clock.Moment) { b.Failure(slow); *now = now.Add(DoubtSpan - 1) }, slow},
		"a failure at the end":     {func(b *Breaker, now *clock.Moment) { b.Failure(slow); *now = now.Add(DoubtSpan) }, nil},
		"a failure and a success":  {func(b *Breaker, now *clock.Moment) { b.Failure(slow); b.Success(*now) }, nil},
		"an outage and its end":    {func(b *Breaker, _ *clock.Moment) { b.Failure(refused); b.Close() }, nil},
	} {
		b, instant, _, _ := newTestBreaker()
		test.do(b, instant)
		assert.ErrorIf(t, !errors.Is(b.lastFailure(), test.want), "%s: got %v; want %v", name, b.lastFailure(), test.want)
	}
}

// TestBreaker_inherit has a breaker carry on an outage: its first success or its retirement ends the outage, once.
func TestBreaker_inherit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		do            func(b *Breaker) (retired bool)
		opens, closes int
		open          bool
	}{
		"a success":                    {func(b *Breaker) bool { b.Success(0); b.Success(0); return false }, 0, 1, false},
		"a probe":                      {func(b *Breaker) bool { b.Close(); b.Close(); return false }, 0, 1, false},
		"a failure":                    {func(b *Breaker) bool { b.Failure(refused); return false }, 0, 0, true},
		"a failure, then a probe":      {func(b *Breaker) bool { b.Failure(refused); b.Close(); return false }, 0, 1, false},
		"its retirement":               {func(b *Breaker) bool { return b.retire() }, 0, 0, false},
		"a failure and its retirement": {func(b *Breaker) bool { b.Failure(refused); return b.retire() }, 0, 0, false},
		"a success, then a failure":    {func(b *Breaker) bool { b.Success(0); b.Failure(refused); return false }, 1, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			b, _, opened, closed := newTestBreaker()
			if !b.inherit() || b.inherit() {
				t.Fatal("two outages, or none, are carried on")
			}
			retired := test.do(b)
			if *opened != test.opens || *closed != test.closes || b.Open() != test.open {
				t.Errorf("%d openings, %d closings, open %v; want %d, %d, %v", *opened, *closed, b.Open(), test.opens, test.closes, test.open)
			}
			if wants := !test.open && test.closes == 0; retired != wants {
				t.Errorf("the retired one has an outage to end: %v, want %v", retired, wants)
			}
		})
	}
}

func TestBreaker(t *testing.T) {
	t.Parallel()
	timeout := error(limiter.ErrTimeout)
	b, clock, opened, closed := newTestBreaker()
	expect := func(what string, open bool) {
		t.Helper()
		assert.FatalIf(t, b.Open() != open, "%s: open %v", what, !open)
	}
	for range FailuresInARow - 1 {
		b.Failure(timeout)
	}
	b.Success(*clock)
	for range FailuresInARow - 1 {
		b.Failure(timeout)
	}
	expect("after fewer failures in a row than it takes", false)
	b.Failure(timeout)
	b.Failure(timeout)
	expect("after failures that come all at once", false)
	*clock = clock.Add(FailuresSpan)
	b.Failure(timeout)
	expect("after failures in a row", true)
	*clock = clock.Add(probeInterval)
	b.Success(*clock)
	expect("after a late answer to a request", true)
	b.Failure(timeout) // a request that was in flight
	_, wait := b.untilProbe()
	assert.ErrorIf(t, wait != 0, "a late failure postpones the probe by %v", wait)
	b.postpone()
	_, wait = b.untilProbe()
	assert.ErrorIf(t, wait != probeInterval, "%v until the next probe", wait)
	b.Close()
	expect("after a probe that succeeded", false)
	b.Failure(timeout)
	expect("after one failure more", false)
	b.Failure(refused)
	expect("after one certain failure", true)
	assert.ErrorIf(t, *opened != 2 || *closed != 1, "reported %d openings and %d closings", *opened, *closed)
}

func TestBreaker_half_fails(t *testing.T) {
	t.Parallel()
	b, clock, _, _ := newTestBreaker()
	for i := 0; !b.Open(); i++ {
		assert.FatalIf(t, i > 200, "never opened")
		*clock = clock.Add(probeInterval / 50)
		if i%2 == 0 {
			b.Failure(limiter.ErrTimeout)
		} else {
			b.Success(*clock)
		}
		assert.ErrorIf(t, b.Open() && i < minSample, "opened after %d requests", i)
	}
}

// stepped returns a reading of a clock whose wall clock was set by a duration while its monotonic
// clock went on: the upper 33 bits of a Time that has both, below the flag, are its seconds.
func stepped(t time.Time, by time.Duration) time.Time {
	wall := (*uint64)(unsafe.Pointer(&t))
	*wall += uint64(by/time.Second) << 30
	return t
}

func TestBreaker_wall_clock(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{-3 * time.Hour, 3 * time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			at, by := time.Now(), time.Duration(0) // the monotonic clock stands still
			b := &Breaker{OnOpen: func(error) {}, OnClose: func() {}}
			b.Now = func() clock.Moment { return clock.MomentOf(stepped(at, by)) }
			b.Failure(refused)
			by = step
			shown := stepped(at, by)
			assert.FatalIf(t, shown.Round(0).Sub(at.Round(0)).Abs() < time.Hour, "the wall clock was not set: %v", shown)
			open, wait := b.untilProbe()
			assert.ErrorIf(t, !open || wait != probeInterval, "open %v, the next probe in %v", open, wait)
		})
	}
}

// TestOutages_inTurn has many nodes fail and recover: what is reported begins and ends in turn.
func TestOutages_inTurn(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	failing, reports := false, 0
	report := func(fails bool) {
		mu.Lock()
		defer mu.Unlock()
		assert.ErrorIf(t, failing == fails, "an outage is reported as begun or ended twice in a row")
		failing = fails
		reports++
	}
	o := outages{OnOutage: func(error) { report(true) }, OnRecovery: func(time.Duration) { report(false) }}
	var nodes sync.WaitGroup
	for range 4 {
		nodes.Go(func() {
			for range 5000 {
				o.begin(limiter.ErrTimeout)
				o.end()
			}
		})
	}
	if nodes.Wait(); failing || reports == 0 {
		t.Errorf("after %d reports failing is %v", reports, failing)
	}
}

func TestKind(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		// Redis 6, with the place before it; 7.0; 7.2, 8 and Valkey.
		"@user_script: 12: WRONGTYPE Operation against a key holding the wrong kind of value":                                     "value",
		"WRONGTYPE Operation against a key holding the wrong kind of value script: 6f, on @user_script:12.":                       "value",
		"@user_script: 7: The user executing the script can't run this command or subcommand":                                     "auth",
		"ERR The user executing the script can't run this command or subcommand script: 6f, on @user_script:12.":                  "auth",
		"@user_script: 7: The user executing the script can't access at least one of the keys mentioned in the command arguments": "auth",
		"ERR ACL failure in script: User limiter has no permissions to run the 'set' command script: 6f, on @user_script:12.":     "auth",
		"NOPERM ACL failure in script: No permissions to access a key":                                                            "auth",
		"@user_script: 7: Unknown Redis command called from Lua script":                                                           "command",
		"ERR Unknown Redis command called from script script: 6f, on @user_script:12.":                                            "command",
		"ERR Unknown command called from script script: 6f, on @user_script:12.":                                                  "command",
		"ERR Unknown Redict command called from script script: 6f, on @user_script:12.":                                           "command",
		"@user_script: 7: -OOM command not allowed when used memory > 'maxmemory'.":                                               "oom",
		// A Cluster that is down with cluster-allow-reads-when-down: Redis 7.0 and Valkey 9.1.
		"ERR Script attempted to execute a write command while the cluster is down and readonly script: 6f, on @user_script:12.": "clusterdown",
		"ERR Can not execute a write command 'set' while the cluster is down and readonly script: on @user_script:12.":           "clusterdown",
		"FOREIGNVALUE the stored value is none of this module":                                                                   "value",
		// Valkey without its module lua; Redis 5; Redis whose Lua lacks a library; a proxy that parses the script.
		"ERR Could not find scripting engine 'lua'": "incompatible",
		"ERR syntax error":                          "incompatible",
		"ERR Error running script: @enable_strict_lua:15: user_script:1: Script attempted to access nonexistent global variable 'struct'": "incompatible",
		"ERR user_script:10: attempt to index a nil value (global 'struct')":                                                              "incompatible",
		"ERR bad lua script for redis cluster, all the keys that the script uses should be passed using the KEYS array":                   "incompatible",
		"ERR unknown command 'evalsha', with args beginning with: 'struct'":                                                               "command",
		// Words of unknown replies do not decide the kind.
		"ERR something about WRONGTYPE":                     "other",
		"user_script:12: attempt to index a nil value":      "other",
		"ERR This Redis command is not allowed from script": "other",
	} {
		err := dial.Undecided(dial.Failure(text))
		alone := want == "value"
		assert.ErrorIf(t, limiter.Kind(err) != want || limiter.FailedAlone(err) != alone || certain(err) == alone,
			"%s: kind %s, alone %v, certain %v", text, limiter.Kind(err), limiter.FailedAlone(err), certain(err))
	}
	lost := errors.New("CLUSTERDOWN Hash slot not served")
	assert.ErrorIf(t, !limiter.FailedAlone(lost) || limiter.FailedAlone(nil),
		"a slot without a master is no failure of the others")
}

// reply is an error that Redis answers to the command itself.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

// TestKind_busy expects that a Redis that is busy running a script has a kind of its own, which opens no breaker at
// once: scripts end.
func TestKind_busy(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.":  "busy",
		"BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.": "busy",
		"BUSY Redict is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.": "busy",
		"BUSYKEY Target key name already exists.":                                                 "other",
	} {
		err := dial.Undecided(reply(text))
		assert.ErrorIf(t, limiter.Kind(err) != want || certain(err) || limiter.FailedAlone(err) || MayHaveRun(err),
			"%s: kind %s, certain %v, alone %v, may have run %v; want %s and no other", text,
			limiter.Kind(err), certain(err), limiter.FailedAlone(err), MayHaveRun(err), want)
	}
}
