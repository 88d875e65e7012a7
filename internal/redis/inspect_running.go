package redis

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// readRunning reads what Redis counts for each node: a list of nodes with what each runs and when that
// expires, and the units of all together. Nodes that have expired are left out.
func (a *Admin) readRunning(ctx context.Context, p *limiter.Policy, name, kind string) (map[string]any, error) {
	if kind != "hash" {
		return nil, nil //nolint:nilnil // a foreign value has no description
	}
	fields, err := a.client.HGetAll(ctx, name).Result()
	if err != nil {
		return nil, err
	}
	ahead, _ := a.Clock(SlotOfName(name)).Ahead()
	now, total, nodes, turns := time.Now().Add(ahead), int64(0), []map[string]any{}, kernel.WaitingState{}
	for id, text := range fields {
		if id == "all" || p.Settings.Waits && ReadTurn(&turns, id, text) {
			continue
		}
		entry, ok := StoredEntry(text)
		if !ok || len(id) != 8 {
			return nil, nil //nolint:nilnil // a foreign value has no description
		}
		expires := time.UnixMicro(entry[2]).UTC()
		if !expires.After(now) {
			continue
		}
		total += entry[1]
		nodes = append(nodes, map[string]any{"node": NodeName(int64(Double(id, 0))), "running": entry[1],
			"expires": timeText(entry[2])})
	}
	slices.SortFunc(nodes, func(a, b map[string]any) int { return strings.Compare(fmt.Sprint(a["node"]), fmt.Sprint(b["node"])) })
	value := map[string]any{"running": total, "nodes": nodes}
	addTurns(value, &turns, now.UnixMicro())
	return value, nil
}

// addTurns adds to a value the claim to the next units, if one holds at an instant, and how many slots of values have had
// their turn, with the last of these.
func addTurns(value map[string]any, s *kernel.WaitingState, now int64) {
	if c := s.Claim; c.HoldsAt(now) {
		value["claim"] = map[string]any{
			"node": NodeName(c.Node), "units": c.Units, "expires": timeText(c.Ends),
			"age": time.Duration(max(0, now-c.Turn) * int64(time.Microsecond)).Seconds(),
		}
	}
	if len(s.Turns) > 0 {
		value["slots"], value["last_turn"] = len(s.Turns), timeText(slices.Max(slices.Collect(maps.Values(s.Turns))))
	}
}

// timeText returns a Unix time in microseconds in the form of RFC 3339.
func timeText(at int64) string { return time.UnixMicro(at).UTC().Format(time.RFC3339Nano) }
