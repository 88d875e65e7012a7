package replay

// TriesRunning reports whether limits of running requests are tried.
func (s *Suggester) TriesRunning() bool { return s.running != nil }

// AddRunning adds when a request that met the policy began and ended, as does [Suggester.Add] its arrival. An end
// of 0 is unknown. Under other policies weights are units, and each request counts as one.
func (s *Suggester) AddRunning(key string, began, ends, weight int64) {
	switch {
	case s.running == nil:
	case s.own.MaxConcurrent > 0:
		s.running.add(key, began, ends, weight)
	default:
		s.running.add(key, began, ends, 1)
	}
}

// finishRunning adds what was found out about running requests.
func (s *Suggester) finishRunning(r *Suggestions) {
	if s.running == nil || s.running.requests == 0 {
		return
	}
	own := int64(0)
	if len(s.result.NotTried) == 0 {
		own = s.own.MaxConcurrent
	}
	if r.Running = s.running.result(s.busiest, own); r.Running == nil {
		r.NotTried = append(r.NotTried, "limits of requests that run at once are not tried: the log has no durations")
	}
}
