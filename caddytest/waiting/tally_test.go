package waiting

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// tally counts what a Redis is sent about running requests, and what that writes.
type tally struct {
	mu     sync.Mutex
	begun  time.Time
	runs   int // of scripts
	asks   int // of requests that wait
	takes  int // of others
	states int // releases, and states
	claims int // that were written
	writes int // commands of scripts that write

	together  int                      // releases that have left in one run with an ask
	apart     int                      // releases that an ask of the same node has followed in another run, within [soon]
	released  map[string]time.Duration // by node: its last release without an ask
	unread    int                      // messages of another form
	appended  int64                    // bytes of the append-only file at the beginning
	appending func() int64
}

// soon is the time between two messages that one event has caused.
const soon = 3 * time.Millisecond

// watch begins to count.
func watch(t *testing.T, server *redistest.Server) *tally {
	t.Helper()
	y := &tally{released: map[string]time.Duration{}}
	y.appending = func() int64 {
		info := server.Client(t).Info(t.Context(), "persistence").Val()
		_, rest, _ := strings.Cut(info, "aof_current_size:")
		size, _, _ := strings.Cut(rest, "\r\n")
		bytes, _ := strconv.ParseInt(size, 10, 64)
		return bytes // 0 without such a file
	}
	server.Monitor(t, y.see)
	return y
}

// begin forgets what was counted.
func (y *tally) begin() {
	appended := y.appending()
	y.mu.Lock()
	defer y.mu.Unlock()
	y.begun, y.appended = time.Now(), appended
	y.runs, y.asks, y.takes, y.states, y.claims, y.writes, y.together, y.apart = 0, 0, 0, 0, 0, 0, 0, 0
}

func (y *tally) see(c redistest.Command) {
	if len(c.Words) < 3 {
		return
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	switch name := strings.ToUpper(c.Words[0]); {
	case c.Script && (name == "HSET" || name == "HDEL" || name == "PEXPIRE"):
		y.writes++
		if name == "HSET" && c.Words[2] == "next" {
			y.claims++
		}
	case !c.Script && name == "EVALSHA":
		keys, _ := strconv.Atoi(c.Words[2])
		y.runs++
		if !y.read(c.At, c.Words[len(c.Words)-1], keys) {
			y.unread++
		}
	}
}

// read counts the messages of a run about one policy. It reports false where they have another form.
func (y *tally) read(at time.Duration, text string, keys int) bool {
	const header = 9
	if len(text)%8 != 0 || len(text) < 8*header || redis.Double(text, 0) != 1 {
		return false
	}
	node, place := text[8*(header-1):8*header], header
	next := func() float64 {
		place++
		return redis.Double(text, place-1)
	}
	asks, releases := 0, 0
	for place+5 <= len(text)/8 {
		operation, requests, weight := next(), int(next()), 0.
		place += 2 // one check, of the one policy
		weight = next()
		for ; requests > 0 && place+3 <= len(text)/8; requests-- {
			place += 2 // epoch and base
			switch age := next(); {
			case operation == 4:
				y.states++
				if weight > 0 {
					releases++
				}
			case age >= 0:
				asks++
				place += 4
			default:
				y.takes++
			}
			keys--
		}
	}
	y.asks += asks
	y.pair(at, node, asks, releases)
	return keys == 0 && place == len(text)/8
}

// pair counts releases beside asks.
func (y *tally) pair(at time.Duration, node string, asks, releases int) {
	if asks > 0 && releases > 0 {
		y.together++
		return
	}
	if last, found := y.released[node]; found && asks > 0 {
		if at-last <= soon {
			y.apart++
		}
		delete(y.released, node)
	}
	if releases > 0 {
		y.released[node] = at
	}
}

// seconds returns for how long was counted.
func (y *tally) seconds() float64 { return time.Since(y.begun).Seconds() }

// report logs what was counted, and returns how many calls there were in a second.
func (y *tally) report(t *testing.T, what string) (calls float64) {
	t.Helper()
	bytes := y.appending()
	y.mu.Lock()
	defer y.mu.Unlock()
	assert.ErrorIf(t, y.unread > 0, "%d messages have another form", y.unread)
	s := y.seconds()
	calls = float64(y.asks+y.takes+y.states) / s
	t.Logf("%s: %.1f calls/s (%.1f asks, %.1f takes, %.1f releases and states) in %.1f runs/s; %.1f claims and %.1f writes/s; "+
		"release and ask: %d in one run, %d in two (one run would save %.0f%% of the runs); %.0f bytes/s appended",
		what, calls, float64(y.asks)/s, float64(y.takes)/s, float64(y.states)/s, float64(y.runs)/s, float64(y.claims)/s, float64(y.writes)/s,
		y.together, y.apart, 100*float64(y.apart)/float64(max(1, y.runs)), float64(bytes-y.appended)/s)
	return calls
}
