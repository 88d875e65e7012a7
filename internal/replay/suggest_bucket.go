package replay

// bucketColumn tries a bucket whose burst is the limit. The three buckets of the limiter then decide alike. A
// bucket drains at the rate of its limit, so the limits that have admitted everything have different debts. But
// each debt follows from the requests: it is the maximum, over all requests so far, of the units from that
// request on less what has drained since. See [frontier] for the few requests that matter.
type bucketColumn struct {
	ladder *ladder
	keys   []bucketKey
}

// bucketKey is one key. Debts are in 1/window units, at an instant.
type bucketKey struct {
	starts frontier
	units  int64   // of all requests before now without refund
	debts  []int64 // under the limits below the peak
	at     int64
	most   int64 // peak demand
}

func (c *bucketColumn) grow() { c.keys = append(c.keys, bucketKey{}) }

func (c *bucketColumn) peak(key int) int64 { return c.keys[key].most }

func (c *bucketColumn) add(key int, at, weight int64, returned bool) (denied uint64) {
	k, l := &c.keys[key], c.ladder
	k.drain(l, at)
	if k.most <= l.top() {
		k.rise(l, at, weight, returned)
	}
	for i := range k.debts {
		if limit := l.limits[i]; weight > limit || k.debts[i] > (limit-weight)*l.window {
			denied |= 1 << i
		} else if !returned {
			k.debts[i] += weight * l.window
		}
	}
	return denied
}

// drain updates the debts to an instant. Each is at most what a window drains.
func (k *bucketKey) drain(l *ladder, at int64) {
	elapsed := min(at-k.at, l.window)
	for i := range k.debts {
		k.debts[i] = max(0, k.debts[i]-elapsed*l.limits[i])
	}
	k.at = at
}

// rise raises the peak to the demand of a request, and adds a debt for each limit that falls below it.
func (k *bucketKey) rise(l *ladder, at, weight int64, returned bool) {
	k.starts = k.starts.with(start{at, k.units})
	demand := max(k.most, weight)
	if weight <= l.top() {
		demand = min(k.starts.demand(demand, at, k.units+weight, l.window), l.top()+1)
	}
	if demand > k.most {
		for i := len(k.debts); i < l.below(demand); i++ {
			s := k.starts[k.starts.worst(0, l.limits[i], l.window)]
			k.debts = append(k.debts, (k.units-s.before)*l.window-(at-s.at)*l.limits[i])
		}
		k.most = demand
	}
	if !returned {
		k.units += weight
	}
	k.starts = k.starts[k.starts.worst(0, demand, l.window):]
	if demand > l.top() {
		k.starts = nil // every limit has a debt of its own
	}
}
