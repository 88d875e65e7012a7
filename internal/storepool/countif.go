package storepool

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// UnmatchedCountIf counts the configurations in which count_if of a policy can hardly mean what it says.
var UnmatchedCountIf = Counter("count_if_unmatched_total",
	"Configurations in which count_if matched none of the first 1,000 responses of a policy, all to POST, PUT or PATCH.", "policy")

// firstResponses is how many responses count_if has to match none of before it is suspected.
const firstResponses = 1000

// CountIfWatch finds out whether count_if matches responses of a policy in a configuration. It looks at the first 1,000,
// and only if all requests are such as log-ins send: others may be without a failure for long.
type CountIfWatch struct {
	done atomic.Bool

	mu       sync.Mutex
	seen     int
	statuses map[int]int // how many responses had them
}

// Look looks at a response. It reports once that none of the first ones was matched, with the statuses that they had.
func (w *CountIfWatch) Look(method string, status int, matches bool) (statuses string, unmatched bool) {
	if w.done.Load() {
		return "", false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done.Load() {
		return "", false
	}
	if matches || !slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, method) {
		w.end()
		return "", false
	}
	if w.statuses == nil {
		w.statuses = map[int]int{}
	}
	w.statuses[status]++
	if w.seen++; w.seen < firstResponses {
		return "", false
	}
	statuses = w.text()
	w.end()
	return statuses, true
}

// end drops what is not needed any more.
func (w *CountIfWatch) end() {
	w.statuses = nil
	w.done.Store(true)
}

// maxStatuses is how many statuses are listed.
const maxStatuses = 5

// text lists the statuses, the most frequent first.
func (w *CountIfWatch) text() string {
	all := slices.SortedFunc(maps.Keys(w.statuses), func(a, b int) int {
		return cmp.Or(w.statuses[b]-w.statuses[a], a-b)
	})
	var parts []string
	for _, status := range all[:min(maxStatuses, len(all))] {
		parts = append(parts, fmt.Sprintf("%d: %d", status, w.statuses[status]))
	}
	if len(all) > maxStatuses {
		parts = append(parts, fmt.Sprintf("%d others", len(all)-maxStatuses))
	}
	return strings.Join(parts, ", ")
}

// CountUnmatched counts a configuration in which count_if matched no response. After the name was dropped there is no
// series to count in.
func (p *PolicyStats) CountUnmatched() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dropped {
		UnmatchedCountIf.WithLabelValues(p.name).Inc()
	}
}
