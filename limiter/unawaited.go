package limiter

// This file holds what Redis is told without anybody waiting for it.

// GiveBack undoes the charges of checks that were reserved, each at most once. Where Redis cannot be
// asked they drain by themselves.
func (r *Redis) GiveBack(checks []Check) {
	for i := range checks {
		r.tell(opGiveBack, &checks[i], nil)
	}
}

// charge charges a check without asking whether there is room, at most once. It tells whether Redis
// could be asked.
func (r *Redis) charge(check *Check) bool { return r.tell(opCharge, check, nil) }

// look asks what a check would get, without charging it. The function is called with the answer, if there
// is one; it must not block nor keep the check.
func (r *Redis) look(check *Check, answered func(*Check)) { r.tell(opLook, check, answered) }

// tell puts an operation on a check in line, and reports whether it is on its way.
func (r *Redis) tell(op operation, check *Check, answered func(*Check)) bool {
	w := r.writer()
	s, slot := r.serverOf(w, check)
	r.writers.Put(w)
	if r.closed.Load() {
		s.lose(op, errClosed)
		return false
	}
	c := newCall(op, []Check{*check})
	c.slot = slot
	if op == opGiveBack {
		c.receipts = append(c.receipts, check.receipt)
	}
	return s.enqueue(c, func(c *call) {
		if answered != nil {
			answered(&c.checks[0])
		}
	})
}
