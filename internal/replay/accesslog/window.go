package accesslog

import "container/heap"

// window sorts a stream that is nearly sorted: pop returns the first of its entries, by a place such as the time. Those that
// come in order wait in a queue, the others in a heap.
type window struct {
	queue []*Entry // in order
	heap  entryHeap
	bytes int // of text
}

func (w *window) size() int { return len(w.queue) + len(w.heap) }

func (w *window) push(e *Entry, place int64) {
	e.place = place
	if last := len(w.queue) - 1; last < 0 || !e.before(w.queue[last]) {
		w.queue = append(w.queue, e)
	} else {
		heap.Push(&w.heap, e)
	}
	w.bytes += e.bytes
}

// queueFirst reports whether the first entry is in the queue. The window must not be empty.
func (w *window) queueFirst() bool {
	return len(w.heap) == 0 || len(w.queue) > 0 && !w.heap[0].before(w.queue[0])
}

// first returns the earliest entry; nil without one.
func (w *window) first() *Entry {
	switch {
	case w.size() == 0:
		return nil
	case w.queueFirst():
		return w.queue[0]
	}
	return w.heap[0]
}

// pop removes and returns the first entry. The window must not be empty.
func (w *window) pop() (e *Entry) {
	if w.queueFirst() {
		e = w.queue[0]
		w.queue[0] = nil
		w.queue = w.queue[1:] // append moves the rest to new memory when this is used up
	} else {
		e, _ = heap.Pop(&w.heap).(*Entry)
	}
	w.bytes -= e.bytes
	return e
}

// entryHeap is a heap of entries, by their places.
type entryHeap []*Entry

func (h entryHeap) Len() int           { return len(h) }
func (h entryHeap) Less(i, j int) bool { return h[i].before(h[j]) }
func (h entryHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *entryHeap) Push(e any) {
	*h = append(*h, e.(*Entry)) //nolint:forcetypeassert,errcheck // the heap holds nothing else
}
func (h *entryHeap) Pop() any { return popLast((*[]*Entry)(h)) }

// sourceHeap is a heap of open files that have an entry each, the file with the earliest entry first; of equal ones the
// file that was named first.
type sourceHeap []*source

func (h sourceHeap) Len() int      { return len(h) }
func (h sourceHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *sourceHeap) Push(s any) {
	*h = append(*h, s.(*source)) //nolint:forcetypeassert,errcheck // the heap holds nothing else
}
func (h *sourceHeap) Pop() any { return popLast((*[]*source)(h)) }
func (h sourceHeap) Less(i, j int) bool {
	a, b := h[i].window.first().Time, h[j].window.first().Time
	return a < b || a == b && h[i].index < h[j].index
}

// popLast removes and returns the last item, as a heap wants it.
func popLast[T any](items *[]*T) *T {
	last := len(*items) - 1
	item := (*items)[last]
	(*items)[last] = nil
	*items = (*items)[:last]
	return item
}
