package accesslog

// window sorts a stream that is nearly sorted: pop returns the earliest of its entries. Entries in order wait
// in a queue, which is cheap. Only the others go through a heap.
type window struct {
	queue []*Entry // sorted; those before head have left
	head  int
	heap  []*Entry // earliest first
	bytes int      // of text
}

func (w *window) size() int { return len(w.queue) - w.head + len(w.heap) }

func (w *window) push(e *Entry) {
	w.bytes += e.bytes
	if w.head == len(w.queue) || !e.before(w.queue[len(w.queue)-1]) {
		w.queue = append(w.queue, e)
		return
	}
	w.heap = append(w.heap, e)
	w.up(len(w.heap) - 1)
}

// first returns the earliest entry; nil without one.
func (w *window) first() *Entry {
	switch {
	case w.head == len(w.queue) && len(w.heap) == 0:
		return nil
	case w.head == len(w.queue):
		return w.heap[0]
	case len(w.heap) > 0 && w.heap[0].before(w.queue[w.head]):
		return w.heap[0]
	}
	return w.queue[w.head]
}

// pop removes and returns the first entry. The window must not be empty.
func (w *window) pop() *Entry {
	e := w.first()
	w.bytes -= e.bytes
	if len(w.heap) > 0 && w.heap[0] == e {
		last := len(w.heap) - 1
		w.heap[0], w.heap[last] = w.heap[last], nil
		w.heap = w.heap[:last]
		w.down(0)
		return e
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

func (w *window) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !w.heap[i].before(w.heap[parent]) {
			return
		}
		w.heap[i], w.heap[parent] = w.heap[parent], w.heap[i]
		i = parent
	}
}

func (w *window) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(w.heap) {
			return
		}
		if right := child + 1; right < len(w.heap) && w.heap[right].before(w.heap[child]) {
			child = right
		}
		if !w.heap[child].before(w.heap[i]) {
			return
		}
		w.heap[i], w.heap[child] = w.heap[child], w.heap[i]
		i = child
	}
}
