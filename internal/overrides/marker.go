package overrides

import (
	"context"
	"crypto/rand"
	_ "embed" // the script
	"fmt"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
)

// This file notices that Redis has lost its data while it answered: FLUSHALL, or another, empty server behind the same
// address. Counts and bans are gone then, and nothing else would say so.

//go:embed mark.lua
var markScript string

const (
	// markerTTL is how long a marker stays that no node renews.
	markerTTL = 7 * 24 * time.Hour

	// renewInterval is the time between two writes of the marker.
	renewInterval = time.Hour

	// markInterval is the time between two looks at the marker.
	markInterval = 5 * time.Second

	// longestGap is the longest time between two looks for which Redis counts as having answered throughout. A node that
	// slept for longer cannot know that.
	longestGap = time.Minute
)

// marker is what a node knows of the marker, a random text in Redis that only a loss of data removes. Polls use it alone.
type marker struct {
	store         *redis.Store
	key           string
	onFirstAnswer func(version string) // nil: nothing is called
	onDataLost    func()

	seen    string    // its value at the last look; empty: Redis has not answered throughout since then
	at      time.Time // of the last look
	renewed time.Time // when this node wrote it
	met     bool      // Redis has answered a look
}

// look reads the marker every markInterval. After a failure the value may differ without a report: Redis may have
// restarted, which the log shows as an outage.
func (m *marker) look(ctx context.Context) {
	now := time.Now().Round(0) // also the time that the machine sleeps counts
	gap := now.Sub(m.at)
	if gap >= 0 && gap < markInterval {
		return
	}
	if m.at = now; gap < 0 || gap > longestGap {
		m.seen = ""
	}
	renew := 0
	if now.Sub(m.renewed) >= renewInterval || now.Before(m.renewed) {
		renew = 1
	}
	reply, err := m.store.Command(ctx, 3, "eval", markScript, 1, m.key, rand.Text(), markerTTL.Milliseconds(), renew)
	values, _ := reply.([]any)
	if err != nil || len(values) != 2 {
		m.seen = ""
		return
	}
	if renew == 1 {
		m.renewed = now
	}
	value := fmt.Sprint(values[0])
	if !m.met && m.onFirstAnswer != nil {
		m.onFirstAnswer(fmt.Sprint(values[1]))
	}
	if m.seen != "" && m.seen != value && m.onDataLost != nil {
		m.onDataLost()
	}
	m.met, m.seen = true, value
}

// forget forgets the marker's value, because Redis did not answer.
func (m *marker) forget() { m.seen = "" }
