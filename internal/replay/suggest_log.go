package replay

// logColumn tries the sliding window log. The log under one limit holds some of the requests of the last window.
// So one log of all requests, with the limits that denied each, serves the whole ladder. It takes 24 bytes for
// each request of a key within a window and an instant. A request that the highest limit denies is no entry, so
// that this limit bounds the entries of a key.
type logColumn struct {
	ladder *ladder
	keys   []logKey
}

// logKey is one key. Units fit 32 bits, because no limit admits more than itself.
type logKey struct {
	entries []logEntry
	below   []int32 // units in the window under the limits below the peak, without the highest
	units   int32   // units under all other limits
	most    int32   // peak demand
}

// logEntry is the requests of one instant that the same limits denied.
type logEntry struct {
	at     int64
	denied uint64
	units  int32
}

func (c *logColumn) grow() { c.keys = append(c.keys, logKey{}) }

func (c *logColumn) peak(key int) int64 { return int64(c.keys[key].most) }

func (c *logColumn) add(key int, at, weight int64, returned bool) (denied uint64) {
	k, top := &c.keys[key], len(c.ladder.limits)-1
	k.forget(at-c.ladder.window, top)
	demand := min(int64(k.units)+weight, c.ladder.top()+1)
	if demand > int64(k.most) {
		k.most = int32(demand)
		for range min(c.ladder.below(demand), top) - len(k.below) {
			k.below = append(k.below, k.units)
		}
	}
	for i, units := range k.below {
		if int64(units)+weight > c.ladder.limits[i] {
			denied |= 1 << i
		}
	}
	if demand > c.ladder.top() {
		denied |= 1 << top
	}
	if !returned && denied != c.ladder.all() {
		k.take(at, denied, int32(weight), top)
	}
	return denied
}

// take charges a request to the limits that admit it.
func (k *logKey) take(at int64, denied uint64, weight int32, top int) {
	for i := range k.below {
		if denied>>i&1 == 0 {
			k.below[i] += weight
		}
	}
	if denied>>top&1 == 0 {
		k.units += weight
	}
	k.remember(at, denied, weight)
}

// forget drops the entries up to an instant.
func (k *logKey) forget(until int64, top int) {
	dead := 0
	for dead < len(k.entries) && k.entries[dead].at <= until {
		e := &k.entries[dead]
		for i := range k.below {
			if e.denied>>i&1 == 0 {
				k.below[i] -= e.units
			}
		}
		if e.denied>>top&1 == 0 {
			k.units -= e.units
		}
		dead++
	}
	if dead == len(k.entries) && cap(k.entries) <= 16 {
		k.entries = k.entries[:0] // most keys need little room, repeatedly
		return
	}
	k.entries = k.entries[dead:]
}

// remember appends a request.
func (k *logKey) remember(at int64, denied uint64, weight int32) {
	if last := len(k.entries) - 1; last >= 0 && k.entries[last].at == at && k.entries[last].denied == denied {
		k.entries[last].units += weight
		return
	}
	k.entries = append(k.entries, logEntry{at, denied, weight})
}
