package accesslog

import (
	"errors"
	"io"
)

// planAhead prepares to read ahead those files that can be read twice and have durations.
func (r *Reader) planAhead() {
	o := r.options
	o.LongRequests = false
	ahead := newReader(o)
	for _, s := range r.waiting {
		if s.file != nil || !s.timed {
			continue
		}
		if again, err := newSource(s.index, r.options.Files[s.index], &ahead.options); err == nil { // otherwise the file is gone
			ahead.waiting = append(ahead.waiting, again)
		}
	}
	if len(ahead.waiting) > 0 {
		r.ahead = ahead
	}
}

// readAhead keeps the requests that would leave the window late, as many as a window holds. The others are late,
// as they would be without it. It runs when the first request is asked for.
func (r *Reader) readAhead() {
	ahead := r.ahead
	if ahead == nil {
		return
	}
	r.ahead = nil
	byFile := make([]map[int64]bool, len(r.summary.Files))
	for _, s := range r.waiting {
		s.long = map[int64]bool{}
		byFile[s.index] = s.long
	}
	ahead.onLate = func(e *Entry) {
		if r.long.size() >= r.options.Window || r.long.bytes >= maxWindowBytes {
			return
		}
		kept := *e
		r.long.push(&kept, kept.Time)
		byFile[e.file][e.line] = true
	}
	for {
		if _, err := ahead.Next(); errors.Is(err, io.EOF) {
			return
		}
	}
}

// nextLong returns the next request of those that were kept, if it is due; nil otherwise.
func (r *Reader) nextLong() *Entry {
	first := r.long.first()
	if first == nil || len(r.open) > 0 && r.open[0].window.first().Time <= first.Time {
		return nil
	}
	return r.long.pop()
}
