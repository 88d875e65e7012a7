package waiting

import "container/heap"

// ranked is what an [indexed] heap holds: an element that knows its place in the heap.
type ranked[E any] interface {
	comparable
	before(other E) bool
	place() *int // its index in the heap, from 1; 0: it is in none
}

// indexed is a heap whose elements can be moved and taken out, whatever their place. The zero value is empty.
type indexed[E ranked[E]] struct{ elements elements[E] }

// first returns the element that is before all others; the zero value where there is none.
func (h *indexed[E]) first() (first E) {
	if len(h.elements) > 0 {
		first = h.elements[0]
	}
	return first
}

// add puts an element in that is in no heap of this kind.
func (h *indexed[E]) add(e E) { heap.Push(&h.elements, e) }

// fix moves an element whose rank has changed. An element that is in no heap stays out.
func (h *indexed[E]) fix(e E) {
	if at := *e.place(); at > 0 {
		heap.Fix(&h.elements, at-1)
	}
}

// remove takes an element out, if it is in the heap.
func (h *indexed[E]) remove(e E) {
	if at := *e.place(); at > 0 {
		heap.Remove(&h.elements, at-1)
	}
}

// elements implements [heap.Interface].
type elements[E ranked[E]] []E

func (h elements[E]) Len() int           { return len(h) }
func (h elements[E]) Less(i, j int) bool { return h[i].before(h[j]) }
func (h elements[E]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	*h[i].place(), *h[j].place() = i+1, j+1
}

func (h *elements[E]) Push(x any) {
	e := x.(E) //nolint:forcetypeassert,errcheck // the heap holds nothing else
	*h = append(*h, e)
	*e.place() = len(*h)
}

func (h *elements[E]) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	var none E
	(*h)[last] = none
	*h = (*h)[:last]
	*e.place() = 0
	return e
}
