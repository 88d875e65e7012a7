package minheap

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type item struct{ rank, name int }

// TestHeap changes, adds and removes items, and compares with a sorted list.
func TestHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places, ranks := map[int]int{}, map[int]int{}
		h := Heap[item]{
			Less:  func(a, b *item) bool { return a.rank < b.rank },
			Moved: func(i *item, place int) { places[i.name] = place },
		}
		name := func() int {
			names := make([]int, 0, len(ranks))
			for name := range ranks {
				names = append(names, name)
			}
			slices.Sort(names)
			return rapid.SampledFrom(names).Draw(t, "name")
		}
		for next := range rapid.IntRange(1, 60).Draw(t, "steps") {
			rank := rapid.IntRange(0, 9).Draw(t, "rank")
			switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
			case kind < 3 || len(ranks) == 0:
				h.Push(item{rank, next})
				ranks[next] = rank
			case kind == 3:
				changed := name()
				h.items[places[changed]].rank, ranks[changed] = rank, rank
				h.Fix(places[changed])
			case kind == 4:
				gone := name()
				if removed := h.Remove(places[gone]); removed.name != gone {
					t.Fatalf("removed %d, want %d", removed.name, gone)
				}
				delete(ranks, gone)
			default:
				least := *h.First()
				if popped := h.Pop(); popped != least || ranks[popped.name] != popped.rank {
					t.Fatalf("popped %v, the first was %v", popped, least)
				}
				delete(ranks, least.name)
			}
			for name, rank := range ranks {
				if got := h.items[places[name]]; got.name != name || rank < h.First().rank {
					t.Fatalf("%d of rank %d is at the place of %v; the first is %v", name, rank, got, *h.First())
				}
			}
			if h.Len() != len(ranks) {
				t.Fatalf("%d items, want %d", h.Len(), len(ranks))
			}
		}
	})
}
