package accesslog

import "github.com/redis-ratelimit/caddy-redis-ratelimit/internal/minheap"

// window sorts a stream that is nearly sorted: pop returns the earliest of its entries. Entries in order wait
// in a queue, which is cheap. Only the others go through a heap.
type window struct {
	queue []*Entry // sorted; those before head have left
	head  int
	heap  minheap.Heap[*Entry] // earliest first
	bytes int                  // of text
}

func (w *window) size() int { return len(w.queue) - w.head + w.heap.Len() }

func (w *window) push(e *Entry) {
	w.bytes += e.bytes
	if w.head == len(w.queue) || !e.before(w.queue[len(w.queue)-1]) {
		w.queue = append(w.queue, e)
		return
	}
	w.heap.Less = func(a, b **Entry) bool { return (*a).before(*b) }
	w.heap.Push(e)
}

// first returns the earliest entry; nil without one.
func (w *window) first() *Entry {
	switch {
	case w.head == len(w.queue) && w.heap.Len() == 0:
		return nil
	case w.head == len(w.queue):
		return *w.heap.First()
	case w.heap.Len() > 0 && (*w.heap.First()).before(w.queue[w.head]):
		return *w.heap.First()
	}
	return w.queue[w.head]
}

// pop removes and returns the first entry. The window must not be empty.
func (w *window) pop() *Entry {
	e := w.first()
	w.bytes -= e.bytes
	if w.heap.Len() > 0 && *w.heap.First() == e {
		return w.heap.Pop()
	}
	w.queue[w.head] = nil
	w.head++
	w.compact()
	return e
}

// compact frees the room of the entries that have left, once they are the larger part.
func (w *window) compact() {
	const small = 256
	if w.head < small || w.head < len(w.queue)/2 {
		return
	}
	left := copy(w.queue, w.queue[w.head:])
	clear(w.queue[left:])
	w.queue, w.head = w.queue[:left], 0
}
