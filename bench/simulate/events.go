package main

import "container/heap"

// clock runs events in the order of their instants, and those of one instant as they were added.
type clock struct {
	now    int64
	added  int64
	events eventHeap
}

type event struct {
	at, number int64
	run        func()
}

// at adds an event, now at the earliest.
func (c *clock) at(when int64, run func()) {
	c.added++
	heap.Push(&c.events, event{max(when, c.now), c.added, run})
}

// runAll runs all events, also those that events add.
func (c *clock) runAll() {
	for len(c.events) > 0 {
		e := heap.Pop(&c.events).(event) //nolint:forcetypeassert,errcheck // the heap holds nothing else
		c.now = e.at
		e.run()
	}
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].number < h[j].number
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(e any)   { *h = append(*h, e.(event)) } //nolint:forcetypeassert,errcheck // clock pushes events
func (h *eventHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = event{}
	*h = (*h)[:last]
	return e
}
