package crawlers

import (
	"net/netip"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
)

// entries are what is known of addresses. Verified ones have a table of their own, which liars cannot push them out of.
type entries struct{ verified, others map[netip.Addr]*entry }

// entry is what is known of an address, whichever crawler it claims.
type entry struct {
	names    []string     // confirmed; empty unless verified
	status   Status       // verified, forged or unknown
	failures uint8        // unknown answers in a row
	fresh    clock.Moment // until then nothing is asked
	serves   clock.Moment // until then the answer counts while the address is asked for again

	pending chan struct{} // closed once the look-up that waits or runs has ended; nil: there is none
}

const (
	mostVerified = 16384
	mostOthers   = 32768
	evicted      = 64 // at once, of a table that is full

	// How long answers are fresh. They serve as long again while the next one is asked for.
	verifiedFor = 24 * time.Hour
	forgedFor   = time.Hour

	// An unknown address is asked for again after a pause, which doubles. While a verified one cannot be asked for it stays
	// verified, and is asked for after the shortest.
	shortestPause, longestPause = 30 * time.Second, time.Hour
)

func newEntries() entries {
	return entries{map[netip.Addr]*entry{}, map[netip.Addr]*entry{}}
}

// of returns the entry of an address; nil: there is none.
func (t *entries) of(a netip.Addr) *entry {
	if e := t.verified[a]; e != nil {
		return e
	}
	return t.others[a]
}

// begin returns the entry of an address that is to be asked for; nil: it has none so far. What no longer serves is forgotten.
func (t *entries) begin(a netip.Addr, e *entry, now clock.Moment) *entry {
	switch {
	case e == nil:
		e = &entry{status: Unknown}
		t.put(a, e)
	case e.status != Unknown && now >= e.serves:
		e.names, e.status = nil, Unknown
		t.put(a, e)
	}
	return e
}

// put puts an entry into the table of its status.
func (t *entries) put(a netip.Addr, e *entry) {
	into, outOf, most := t.others, t.verified, mostOthers
	if e.status == Verified {
		into, outOf, most = t.verified, t.others, mostVerified
	}
	delete(outOf, a)
	if _, isIn := into[a]; !isIn && len(into) >= most {
		evict(into)
	}
	into[a] = e
}

// evict lets some entries of a table go, in no order. Those that are asked for stay.
func evict(table map[netip.Addr]*entry) {
	gone := 0
	for a, e := range table {
		if e.pending != nil {
			continue
		}
		delete(table, a)
		if gone++; gone >= evicted {
			return
		}
	}
}

// forgetUnless forgets an entry without an answer, unless the address has failed to have one before.
func (t *entries) forgetUnless(a netip.Addr, e *entry) {
	if e.status == Unknown && e.failures == 0 && e.pending == nil {
		delete(t.others, a)
	}
}

// abandon ends the wait for a look-up that there was no room for.
func (t *entries) abandon(a netip.Addr) {
	if e := t.of(a); e != nil {
		e.end()
		t.forgetUnless(a, e)
	}
}

// end has those go on who wait for the entry.
func (e *entry) end() {
	if e.pending != nil {
		close(e.pending)
		e.pending = nil
	}
}

// settle takes the answer of a look-up.
func (t *entries) settle(a netip.Addr, got *answer, now clock.Moment) {
	e := t.of(a)
	if e == nil {
		return // only entries that nothing asks for are evicted
	}
	e.end()
	switch {
	case got.status == Verified:
		e.failures, e.fresh, e.serves = 0, now.Add(verifiedFor), now.Add(2*verifiedFor)
	case got.status == Forged:
		e.failures, e.fresh, e.serves = 0, now.Add(forgedFor), now.Add(2*forgedFor)
	case e.status == Verified && now < e.serves:
		e.fresh = now.Add(shortestPause)
		return
	default:
		e.fresh = now.Add(min(longestPause, shortestPause<<min(e.failures, 7)))
		e.failures = min(e.failures, 254) + 1
	}
	e.names, e.status = got.names, got.status
	t.put(a, e)
}
