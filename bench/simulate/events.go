package main

import "github.com/redis-ratelimit/caddy-redis-ratelimit/internal/minheap"

// clock runs events in the order of their instants, and those of one instant as they were added.
type clock struct {
	now    int64
	added  int64
	events minheap.Heap[event]
}

type event struct {
	at, number int64
	run        func()
}

// at adds an event, now at the earliest.
func (c *clock) at(when int64, run func()) {
	c.events.Less = func(a, b *event) bool { return a.at < b.at || a.at == b.at && a.number < b.number }
	c.added++
	c.events.Push(event{max(when, c.now), c.added, run})
}

// runAll runs all events, also those that events add.
func (c *clock) runAll() {
	for c.events.Len() > 0 {
		e := c.events.Pop()
		c.now = e.at
		e.run()
	}
}
