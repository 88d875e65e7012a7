// Package minheap orders items as they come and go: a binary heap for any type, without an allocation per item.
package minheap

// Heap holds items, the least first. Set Less before the first use.
type Heap[T any] struct {
	// Less reports whether an item precedes another.
	Less func(a, b *T) bool

	// Moved, if not nil, is called with the new place of an item, for Fix and Remove.
	Moved func(item *T, place int)

	items []T
}

// Len returns the number of items.
func (h *Heap[T]) Len() int { return len(h.items) }

// First returns the least item, valid until the next change. The heap must not be empty.
func (h *Heap[T]) First() *T { return &h.items[0] }

// Push adds an item.
func (h *Heap[T]) Push(item T) {
	h.items = append(h.items, item)
	h.up(len(h.items) - 1)
}

// Pop removes and returns the least item. The heap must not be empty.
func (h *Heap[T]) Pop() T { return h.Remove(0) }

// Remove removes and returns the item of a place.
func (h *Heap[T]) Remove(place int) T {
	item, last := h.items[place], len(h.items)-1
	h.items[place] = h.items[last]
	var none T
	h.items[last] = none
	if h.items = h.items[:last]; place < last {
		h.Fix(place)
	}
	return item
}

// Fix puts an item that changed into its place.
func (h *Heap[T]) Fix(place int) {
	if h.up(place) == place {
		h.down(place)
	}
}

func (h *Heap[T]) up(i int) (place int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.Less(&h.items[i], &h.items[parent]) {
			break
		}
		h.swap(i, parent)
		i = parent
	}
	h.moved(i)
	return i
}

func (h *Heap[T]) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		if right := child + 1; right < len(h.items) && h.Less(&h.items[right], &h.items[child]) {
			child = right
		}
		if !h.Less(&h.items[child], &h.items[i]) {
			break
		}
		h.swap(i, child)
		i = child
	}
	h.moved(i)
}

// swap exchanges two items. The one that goes to i is at its place.
func (h *Heap[T]) swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.moved(i)
}

func (h *Heap[T]) moved(i int) {
	if h.Moved != nil {
		h.Moved(&h.items[i], i)
	}
}
