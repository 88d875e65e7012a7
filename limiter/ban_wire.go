package limiter

// writeBanKeys writes the keys of bans behind those of the states, the last check first: the script
// finds the first one at the end, so that no message says how many there are.
func (m *message) writeBanKeys(keys *keyWriter) {
	for i := len(m.order) - 1; i >= 0; i-- {
		checks := m.order[i].checks
		for j := len(checks) - 1; j >= 0; j-- {
			if b := checks[j].Policy.ban; b != nil {
				m.writeKey(keys, b.id, checks[j].Key)
			}
		}
	}
}

// writeBans writes the bans of each policy.
func (m *message) writeBans() {
	for _, p := range m.policies {
		if p.ban == nil {
			m.writeNumber(0)
			continue
		}
		m.writeNumber(int64(len(p.ban.durations)))
		m.writeNumber(p.ban.after)
		confirms := int64(0)
		if p.refunds.Load() {
			confirms = 1
		}
		m.writeNumber(confirms)
		for _, d := range p.ban.durations {
			m.writeNumber(d)
		}
	}
}

// readBan reads a ban from what stands in place of a delay: twice what is left of it in microseconds,
// and one more where the request began it.
func (r *Result) readBan(number int64) {
	r.Banned, r.BanBegins, r.BanLeft = true, number%2 == 1, duration(number/2)
}
