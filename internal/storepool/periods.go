package storepool

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

const (
	// sketchKept is the number of keys kept for each period.
	sketchKept = 128

	// sketchPeriod is the length of a period. Counts go back for one to two periods.
	sketchPeriod = 5 * time.Minute
)

// periods counts keys over two periods of time.
type periods struct {
	began    time.Time // of the current period
	current  spaceSaving
	previous spaceSaving
}

// advance begins a new period after the end of the current one, and reports whether it has.
func (p *periods) advance(now time.Time) (begun bool) {
	switch age := now.Sub(p.began); {
	case age < sketchPeriod:
		return false
	case age < 2*sketchPeriod:
		p.previous, p.began = p.current, p.began.Add(sketchPeriod)
	default:
		p.previous, p.began = spaceSaving{}, now
	}
	p.current = spaceSaving{}
	return true
}

// empty reports whether no key came lately.
func (p *periods) empty() bool { return len(p.current.kept)+len(p.previous.kept) == 0 }

// since returns how far back the counts go.
func (p *periods) since(now time.Time) time.Duration {
	since := now.Sub(p.began)
	if p.previous.kept != nil {
		since += sketchPeriod
	}
	return since
}

// missing returns the most that may have come of a key that neither period has kept.
func (p *periods) missing() keyCount { return p.current.missing().plus(p.previous.missing()) }

// merged adds up both periods, the largest count first.
func (p *periods) merged() []keyCount {
	keys := make([]keyCount, 0, len(p.current.kept)+len(p.previous.kept))
	for _, k := range p.current.kept {
		keys = append(keys, k.plus(p.previous.get(k.Key)))
	}
	for _, k := range p.previous.kept {
		if _, both := p.current.indexes[k.Key]; !both {
			keys = append(keys, k.plus(p.current.missing()))
		}
	}
	slices.SortFunc(keys, compareCounts)
	return keys
}

// compareCounts puts the largest count first.
func compareCounts(a, b keyCount) int {
	return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Error, b.Error), strings.Compare(a.Key, b.Key))
}
