package limiter

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// readRunning reads what Redis counts for each node: a list of nodes with what each runs and when that
// expires, and the units of all together. Nodes that have expired are left out.
func (r *Redis) readRunning(ctx context.Context, name string, slot uint16) (map[string]any, error) {
	fields, err := r.client.HGetAll(ctx, name).Result()
	if err != nil {
		return nil, err
	}
	ahead, _ := r.offset(slot)
	now, total, nodes := time.Now().Add(ahead), int64(0), []map[string]any{}
	for id, text := range fields {
		if id == "all" {
			continue
		}
		entry, ok := storedEntry(text)
		if !ok || len(id) != 8 {
			return nil, nil //nolint:nilnil // a foreign value has no description
		}
		expires := time.UnixMicro(entry[2]).UTC() //nolint:forbidigo // by Redis's wall clock
		if !expires.After(now) {
			continue
		}
		total += entry[1]
		nodes = append(nodes, map[string]any{"node": nodeName(int64(double(id, 0))), "running": entry[1], "expires": expires.Format(time.RFC3339Nano)})
	}
	slices.SortFunc(nodes, func(a, b map[string]any) int { return strings.Compare(fmt.Sprint(a["node"]), fmt.Sprint(b["node"])) })
	return map[string]any{"running": total, "nodes": nodes}, nil
}

// storedEntry reads a node's entry: epoch, units, and when they expire.
func storedEntry(text string) (entry [3]int64, ok bool) {
	if len(text) != 8*len(entry) {
		return entry, false
	}
	for i := range entry {
		n := double(text, i)
		if !(n >= 0 && n <= precision) {
			return entry, false
		}
		entry[i] = int64(n)
	}
	return entry, true
}

// nodeName returns a node's ID as text.
func nodeName(id int64) string { return fmt.Sprintf("%014x", id) }

// NodeName returns the name of this process in what [Redis.Inspect] shows of running requests. It is
// random, and another one in each store.
func (r *Redis) NodeName() string { return nodeName(r.running.node) }
