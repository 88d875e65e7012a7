package webhook

import (
	"context"
	_ "embed" // the script
	"fmt"
	"strconv"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
)

//go:embed mark.lua
var markScript string

// Redis sends a command. The number says which word is the key.
type Redis interface {
	Command(ctx context.Context, keyAt int8, words ...any) (any, error)
}

// Mark is where the nodes of a Redis agree which of them tells of an event.
type Mark struct {
	Redis Redis
	Name  string       // of its key, beside the state that the event is of
	Until clock.Moment // when the mark expires, as the state does

	// New says that the event is certainly a new one, even if the mark of an earlier one is there.
	New bool
}

// step is what a node does with a mark.
type step string

// The steps of mark.lua.
const (
	stepBegin step = "begin"
	stepMeet  step = "meet"
	stepLook  step = "look"
	stepRenew step = "renew"
	stepEnd   step = "end"
)

// claim says whose turn it is to tell of an event.
type claim int

const (
	claimNone claim = iota // there is no mark
	claimOurs              // this node tells, until its hold is over
	claimHeld              // another node tells
	claimTold              // the event is told
)

// markTimeout bounds a question to Redis, beside the timeout of its own.
const markTimeout = 5 * time.Second

// answer is what Redis says of a mark.
type answer struct {
	claim claim
	event Event         // if it is ours
	after time.Duration // if it is held: for how long at most
}

// ask does a step for a holder, who has the mark for so long then, with the event that it tells of, which may be the zero value to look.
func (m *Mark) ask(ctx context.Context, s step, holder string, hold time.Duration, e *Event) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, markTimeout)
	defer cancel()
	life := m.Until.Since(clock.Now()).Milliseconds()
	if life <= 0 && (s == stepBegin || s == stepMeet) {
		return answer{}, nil // the state is gone
	}
	text, err := e.stored()
	if err != nil {
		return answer{}, err
	}
	reply, err := m.Redis.Command(ctx, 3, "eval", markScript, 1, m.Name, string(s), holder, hold.Milliseconds(), life, e.id, text)
	if err != nil {
		return answer{}, err
	}
	return readAnswer(reply, hold)
}

func readAnswer(reply any, longest time.Duration) (a answer, err error) {
	values, _ := reply.([]any)
	texts := make([]string, 3)
	for i := range min(len(values), len(texts)) {
		texts[i], _ = values[i].(string)
	}
	switch texts[0] {
	case "ours":
		a.claim = claimOurs
		a.event, err = readStored(texts[1], texts[2])
		return a, err
	case "held":
		a.claim = claimHeld
		left, err := strconv.ParseInt(texts[1], 10, 64)
		a.after = min(time.Duration(max(left, 0))*time.Millisecond, longest)
		return a, err
	case "told":
		a.claim = claimTold
	case "none":
	default:
		return a, fmt.Errorf("redis answers with a %T", reply)
	}
	return a, nil
}
