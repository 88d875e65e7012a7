package main

// send queues an operation. It leaves at once where a batch may: as many are in flight as the round trip
// allows, on a long link evenly spaced.
func (n *node) send(o operation) {
	n.queue = append(n.queue, o)
	n.flush()
}

func (n *node) flush() {
	for len(n.queue) > 0 && n.inFlight < n.senders() {
		if ready := n.lastSent + n.pacing(); n.inFlight > 0 && n.sim.now < ready && len(n.queue) < maxBatch {
			n.wakeAt(ready)
			return
		}
		size := min(len(n.queue), maxBatch)
		batch := n.queue[:size:size]
		n.queue = n.queue[size:]
		n.transmit(batch)
	}
}

// wakeAt flushes at an instant, once.
func (n *node) wakeAt(ready int64) {
	if n.waking {
		return
	}
	n.waking = true
	n.sim.at(ready, func() {
		n.waking = false
		n.flush()
	})
}

func (n *node) senders() int { return int(min(maxSenders, 1+n.sim.roundTrip/senderSpan)) }

func (n *node) pacing() int64 {
	if senders := n.senders(); senders >= minPaced {
		return n.sim.roundTrip / int64(senders)
	}
	return 0
}

// transmit plays a batch: to Redis, its run after those before it, and back.
func (n *node) transmit(batch []operation) {
	s := n.sim
	n.inFlight++
	n.lastSent = s.now
	s.at(s.now+s.oneWay(), func() {
		starts, ends := s.core.enqueue(s.now, batch)
		s.at(starts, func() {
			for _, o := range batch {
				o.run(s.now)
			}
		})
		s.at(ends+s.oneWay(), func() {
			n.inFlight--
			for _, o := range batch {
				if o.done != nil {
					o.done()
				}
			}
			n.flush()
		})
	})
}
