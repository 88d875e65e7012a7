package accesslog

import "github.com/redis-ratelimit/caddy-redis-ratelimit/internal/minheap"

// window sorts a stream that is nearly sorted: pop returns the earliest of its entries.
type window struct {
	heap  minheap.Heap[*Entry]
	bytes int // of text
}

func (w *window) size() int { return w.heap.Len() }

func (w *window) push(e *Entry) {
	w.heap.Less = func(a, b **Entry) bool { return (*a).before(*b) }
	w.heap.Push(e)
	w.bytes += e.bytes
}

// first returns the earliest entry; nil without one.
func (w *window) first() *Entry {
	if w.heap.Len() == 0 {
		return nil
	}
	return *w.heap.First()
}

// pop removes and returns the first entry. The window must not be empty.
func (w *window) pop() *Entry {
	e := w.heap.Pop()
	w.bytes -= e.bytes
	return e
}
