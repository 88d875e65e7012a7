package limiter

// This file holds what Redis is told without anybody waiting for it.

// Refund undoes the charges of checks that were reserved, each at most once. Where Redis cannot be
// asked they drain by themselves.
func (r *Redis) Refund(checks []Check) {
	for i := range checks {
		r.enqueueAsync(opRefund, &checks[i], nil)
	}
}

// chargeAsync charges a check without asking whether there is room, at most once. It tells whether Redis
// could be asked.
func (r *Redis) chargeAsync(check *Check) bool { return r.enqueueAsync(opCharge, check, nil) }

// peekAsync asks what a check would get, without charging it. The function is called with the answer, if there
// is one; it must not block nor keep the check.
func (r *Redis) peekAsync(check *Check, answered func(*Check)) {
	r.enqueueAsync(opPeek, check, answered)
}

// enqueueAsync puts an operation on a check in line, and reports whether it is on its way.
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
