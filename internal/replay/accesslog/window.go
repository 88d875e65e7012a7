package accesslog

import "container/heap"

// window sorts a stream that is nearly sorted: pop returns the earliest of its entries.
type window struct {
	entries entryHeap
	bytes   int // of text
}

func (w *window) size() int { return len(w.entries) }

func (w *window) push(e *Entry) {
	heap.Push(&w.entries, e)
	w.bytes += e.bytes
}

// first returns the earliest entry; nil without one.
func (w *window) first() *Entry {
	if len(w.entries) == 0 {
		return nil
	}
	return w.entries[0]
}

// pop removes and returns the first entry. The window must not be empty.
func (w *window) pop() *Entry {
	e, _ := heap.Pop(&w.entries).(*Entry)
	w.bytes -= e.bytes
	return e
}

// entryHeap is a heap of entries, the earliest first.
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
