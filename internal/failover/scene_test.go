package failover

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// scene is some nodes on one Redis, and the steps that they play:
//
//	a, b, c, d   the node that goes on; m is the process of a without Redis, as before a reload
//	key, of, reserve
//	             of the requests that follow: their key, their policies by their numbers, as in "of 01", and what they leave
//	take, denied, withheld, others, bans, banned, never, peek
//	             a request of so many units, and what becomes of it: withheld for others, or "others" deny it, but not its
//	             last policy
//	beside       a request that takes nothing of its first policy
//	open, closed a request in this mode, which is not decided
//	until        a request that is made until this becomes of it by this source, as in "until take 1 redis"
//	fails        requests of one unit until the node counts Redis as failing
//	by, left     the source of the last request, and what remains of its policies
//	seen         a source of an earlier request
//	end          the end of the request that passed as number so many, from 1
//	runs, states what runs by the node, and how many states it has; idle: nothing is left of what ran, here or on Redis
//	counts, owes what Redis counts as running, and what remains there of the first policy
//	kill, start, pause, resume, full, roomy, flush, away, back
//	             what happens to Redis; while it is away the node does not ask it
//	even         the node owes nothing; slotted: it speaks to a proxy that wants keys of one slot
//	close, gone  the node's store is replaced; its last request has ended
//	unban, unbanall, listed, reset, resetall, forget
//	             what operators ask for, and how many bans or keys they find; forget resets what the node has,
//	             offenses counts those that it has
//	reports      what was reported of outages
type scene struct {
	name     string
	policies []*limiter.Policy
	options  Behavior
	ahead    time.Duration // of Redis's clock
	secret   string        // of the names of keys
	recalls  bool          // no denial leaves the deny cache by its age
	steps    string

	t        *testing.T
	server   *redistest.Server
	reported stores.Reports
	nodes    map[string]*Store
	at       *Store // whose turn it is
	of       []*limiter.Policy
	key      limiter.EncodedKey
	reserve  int64
	words    []string
	checks   []limiter.Check // of the last request
	source   limiter.Source
	err      error
	seen     map[limiter.Source]bool
	ends     []func() // of the requests that passed
}

// playScenes plays each scene.
func playScenes(t *testing.T, scenes []*scene) {
	t.Helper()
	for _, s := range scenes {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.t, s.nodes, s.seen = t, map[string]*Store{}, map[limiter.Source]bool{}
			s.of, s.key, s.words = s.policies, limiter.EncodeKey("k"), strings.Fields(s.steps)
			switch {
			case s.ahead != 0:
				s.server = redistest.StartAt(t, s.ahead)
			case regexp.MustCompile(`\b(kill|pause|full)\b`).MatchString(s.steps):
				s.server = redistest.Start(t)
			default:
				s.server = redistest.Shared(t)
			}
			for len(s.words) > 0 {
				s.step(s.next())
			}
		})
	}
}

func (s *scene) next() string {
	s.t.Helper()
	assert.FatalIf(s.t, len(s.words) == 0, "the steps end within one")
	word := s.words[0]
	s.words = s.words[1:]
	return word
}

func (s *scene) number() int64 {
	s.t.Helper()
	return assert.NoError(strconv.ParseInt(s.next(), 10, 64))(s.t)
}

// want compares what a step found.
func (s *scene) want(step string, got, want any) {
	s.t.Helper()
	assert.FatalIf(s.t, fmt.Sprint(got) != fmt.Sprint(want), "%s: %v, want %v; before %q; the last request: %+v by %s, %v", step, got, want, s.words, s.checks, s.source, s.err)
}

// node returns the node of a name, which is made when it is named first.
func (s *scene) node(name string) *Store {
	if s.nodes[name] == nil {
		local := memory.New()
		switch name {
		case "m":
			s.nodes[name] = New(nil, local, s.options)
			return s.nodes[name]
		case "a":
			if m := s.nodes["m"]; m != nil {
				local = m.local
			}
		}
		r := stores.OpenWithin(s.t, s.server, stores.Patience, limiter.KeyFormat{Prefix: "rl", Secret: s.secret})
		s.reported.Listen(r)
		s.nodes[name] = New(r, local, s.options)
		if s.recalls {
			s.nodes[name].denied.MaxAge = time.Hour
		}
	}
	return s.nodes[name]
}

// request decides a request, and returns what becomes of it. Of its first so many policies it takes nothing.
func (s *scene) request(mode limiter.FailMode, units int64, peeks int) string {
	s.checks = nil
	for i, p := range s.of {
		s.checks = append(s.checks, limiter.Check{Policy: p, Key: s.key, Weight: units, Reserve: s.reserve, Peek: i < peeks})
	}
	s.source, s.err = s.at.DecideIn(s.t.Context(), mode, s.checks)
	s.seen[s.source] = true
	end := func(f *Store, checks []limiter.Check) func() { return func() { f.EndRunning(checks) } }(s.at, s.checks)
	last := s.checks[len(s.checks)-1]
	switch r := last.Result; {
	case errors.Is(s.err, limiter.ErrUndecided):
		s.ends = append(s.ends, end)
		return "undecided"
	case s.err != nil:
		return "failed"
	case limiter.Allowed(s.checks):
		s.ends = append(s.ends, end)
		return "take"
	case r.Banned && (r.Remaining != 0 || r.BanLeft < 59*time.Minute || r.BanLeft > time.Hour):
		return "badly banned"
	case r.BanBegins:
		return "bans"
	case r.Banned:
		return "banned"
	case r.RetryAfter == limiter.Never:
		return "never"
	case r.Passes():
		end()
		return "others"
	case r.ForOthers:
		return "withheld"
	case last.Policy.CountsRunning && r.RetryAfter != time.Second:
		return "denied for another time"
	default:
		end() // what does not run has no units to return
		return "denied"
	}
}

// until makes a request until something becomes of it, or anything, by a source.
func (s *scene) until(outcome string, units int64, source limiter.Source) {
	s.t.Helper()
	assert.Retry(s.t, fmt.Sprintf("%s %d by %s", outcome, units, source), func() (again bool, seen any) {
		got := s.request(limiter.FailLocal, units, 0)
		return got != outcome && outcome != "any" || s.source != source, fmt.Sprintf("%s by %s", got, s.source)
	})
}

// step does a step, and compares what it finds.
func (s *scene) step(do string) {
	t, ctx, p := s.t, s.t.Context(), s.of[0]
	t.Helper()
	switch do {
	case "a", "b", "c", "d", "m":
		s.at = s.node(do)
	case "key":
		s.key = limiter.EncodeKey(s.next())
	case "reserve":
		s.reserve = s.number()
	case "of":
		s.of = nil
		for _, digit := range s.next() {
			s.of = append(s.of, s.policies[digit-'0'])
		}
	case "take", "denied", "others", "bans", "banned", "never", "withheld":
		s.want(do, s.request(limiter.FailLocal, s.number(), 0), do)
	case "peek":
		s.want(do, s.request(limiter.FailLocal, 0, len(s.of)), "take")
	case "beside":
		s.want(do, s.request(limiter.FailLocal, s.number(), 1), "take")
	case "open":
		s.want(do, s.request(limiter.FailOpen, s.number(), 0), "undecided")
	case "closed":
		s.want(do, s.request(limiter.FailClosed, s.number(), 0), "undecided")
	case "until":
		s.until(s.next(), s.number(), limiter.Source(s.next()))
	case "fails":
		stores.WaitFailing(t, s.at, true, func() { s.request(limiter.FailLocal, 1, 0) })
	case "by":
		s.want(do, s.source, s.next())
	case "seen":
		s.want(do, s.seen[limiter.Source(s.next())], true)
	case "left":
		var left []string
		for _, c := range s.checks {
			left = append(left, fmt.Sprint(c.Result.Remaining))
		}
		s.want(do, strings.Join(left, ","), s.next())
	case "end":
		s.ends[s.number()-1]()
	case "runs":
		s.want(do, s.at.Running(s.of[len(s.of)-1].Name()), s.number())
	case "states":
		s.want(do, s.at.local.Len(), s.number())
	case "counts":
		stores.WaitCounted(t, s.node("observer").shared, s.policies[0], s.number())
	case "idle":
		assert.Retry(t, "nothing is left of what ran", func() (again bool, seen any) {
			keys, err := s.server.Client(t).Keys(ctx, "*").Result()
			records := s.at.shared.Running.Records.Load()
			return err != nil || len(keys) > 0 || records > 0, fmt.Sprintf("%v, %v, %d records", keys, err, records)
		})
	case "owes":
		stores.WaitLeft(t, s.at.shared, p, s.number())
	case "away":
		keepOpen(s.at.shared)
	case "back":
		closeAgain(s.at.shared)
	case "even":
		s.want(do, s.at.ledger.isEmpty(), true)
	case "slotted":
		s.at.shared.Slotted.Store(true)
	case "kill":
		s.server.Kill()
	case "start":
		s.server.Run(t)
	case "pause":
		s.at.shared.Timeout = time.Second // not before, so that a slow machine does not begin the outage
		s.server.Pause(t)
	case "resume":
		stores.Follow(s.at.shared)
		s.server.Resume(t)
	case "full", "roomy":
		assert.Must(t, s.server.Client(t).ConfigSet(ctx, "maxmemory", map[string]string{"full": "1", "roomy": "0"}[do]).Err())
	case "flush":
		assert.Must(t, s.server.Client(t).FlushDB(ctx).Err())
	default:
		s.operate(do, p)
	}
}

// operate does what an operator does.
func (s *scene) operate(do string, p *limiter.Policy) {
	t, ctx := s.t, s.t.Context()
	t.Helper()
	switch do {
	case "close":
		assert.Must(t, s.at.shared.Close())
	case "gone":
		assert.WaitFor(t, "the store has ended", func() error {
			select {
			case <-s.at.shared.Uses.Closed:
				return nil
			default:
				return errors.New("it is open")
			}
		})
	case "unban":
		s.want(do, assert.NoError(s.at.Unban(ctx, p, s.key))(t), true)
	case "unbanall":
		pattern := strings.Trim(s.next(), `"`)
		s.want(do, assert.NoError(s.at.UnbanAll(ctx, pattern))(t), s.number())
	case "listed":
		list, complete, err := s.at.Banned(ctx, "")
		assert.FatalIf(t, err != nil || !complete, "%+v %+v", list, err)
		s.want(do, len(list), s.number())
		for _, b := range list {
			assert.ErrorIf(t, b.Left > time.Hour || b.Left < 59*time.Minute, "%+v", b)
		}
	case "reset":
		found := assert.NoError(s.at.Reset(ctx, p, s.key))(t)
		s.want(do, max(found.Shared, found.Here), s.number())
	case "resetall":
		found := assert.NoError(s.at.ResetAll(ctx, p.Name()))(t)
		s.want(do, max(found.Shared, found.Here), s.number())
	case "forget":
		s.want(do, s.at.HasLocalState(p, s.key) && s.at.local.Reset(p, s.key) > 0, true)
	case "offenses":
		held := s.at.local.Lock(p, s.key.String())
		defer held.Mu.Unlock()
		s.want(do, held.Bans[s.key.String()].Offenses, s.number())
	case "reports":
		stores.WaitReported(t, &s.reported, strings.ReplaceAll(s.next(), ",", " "))
	default:
		t.Fatalf("no such step: %q before %q", do, s.words)
	}
}
