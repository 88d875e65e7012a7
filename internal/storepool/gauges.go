package storepool

// GaugesNow returns what runs on this node by the stores of the running configuration, and what waits here on all stores.
func (p *Pool) GaugesNow(names *nameTable) Gauges {
	g := Gauges{Running: map[string]int64{}, Waiting: map[string]int64{}}
	for policy, w := range p.Waits() {
		g.Waiting[policy] = int64(w.Count)
	}
	stores := p.Newest()
	if stores == nil || !stores.Retain() {
		return g
	}
	defer stores.End()
	for _, name := range names.CountingRunning() {
		g.Running[name] = stores.Running(name)
	}
	return g
}
