package limiter

// Refund undoes the charges of checks that were reserved, each at most once, in the background.
// Where Redis does not answer they drain by themselves.
func (r *Redis) Refund(checks []Check) {
	for i := range checks {
		r.enqueueAsync(opRefund, &checks[i], nil)
	}
}

// chargeAsync charges a check without the condition that there is room, at most once, in the
// background. It reports whether the charge was queued.
func (r *Redis) chargeAsync(check *Check) bool { return r.enqueueAsync(opCharge, check, nil) }

// peekAsync queries what a check would get, without charging it, in the background. The callback
// runs with the answer, if there is one; it must not block nor keep the check.
func (r *Redis) peekAsync(check *Check, answered func(*Check)) {
	r.enqueueAsync(opPeek, check, answered)
}

// enqueueAsync queues an operation on a check that no request waits for, and reports whether it was
// queued.
func (r *Redis) enqueueAsync(op operation, check *Check, answered func(*Check)) bool {
	w := r.writer()
	s, slot := r.nodeOf(w, check)
	r.writers.Put(w)
	if r.closed.Load() {
		s.lose(op, errClosed)
		return false
	}
	c := newCall(op, []Check{*check})
	c.slot = slot
	if op == opRefund {
		c.receipts = append(c.receipts, check.receipt)
	}
	return s.enqueue(c, func(c *call) {
		if answered != nil {
			answered(&c.checks[0])
		}
	})
}
