package replay

import "slices"

// The two algorithms that are compared.
const (
	counterName = "sliding_window_counter"
	logName     = "sliding_window_log"
)

// differences counts the decisions of a sliding window counter that differ from the exact log, limit by limit.
// Each has charged what it admitted itself.
type differences struct {
	counter, log           int // the columns
	byCounter, byLog       uint64
	tooStrict, tooGenerous []int64 // limit by limit
}

// newDifferences returns nil unless both algorithms are tried.
func newDifferences(algorithms []string, limits int) *differences {
	counter, log := slices.Index(algorithms, counterName), slices.Index(algorithms, logName)
	if counter < 0 || log < 0 {
		return nil
	}
	return &differences{counter: counter, log: log, tooStrict: make([]int64, limits), tooGenerous: make([]int64, limits)}
}

// note keeps the limits that deny the current request under the algorithm of a column.
func (d *differences) note(column int, denied uint64) {
	switch {
	case d == nil:
	case column == d.counter:
		d.byCounter = denied
	case column == d.log:
		d.byLog = denied
	}
}

// count ends the current request.
func (d *differences) count() {
	if d == nil || d.byCounter == d.byLog {
		return
	}
	countBits(d.tooStrict, d.byCounter&^d.byLog)
	countBits(d.tooGenerous, d.byLog&^d.byCounter)
}
