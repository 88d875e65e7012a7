// Package crawlers decides whether a request that claims by its User-Agent to come from a crawler does: by the names that the
// DNS has for the client's address, and by ranges that the crawler's operator publishes. Of the module it imports the clock alone.
package crawlers

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

// Status says what is known of a claim.
type Status uint8

// The statuses. Only what is forged may be refused: what is unknown may be a crawler whose name was not found so far.
const (
	Unclaimed Status = iota // the request claims no crawler
	Unknown                 // nothing is known for certain
	Forged                  // the address is certainly none of the crawler's
	Verified                // the address is the crawler's
)

// String returns the status as placeholders and metrics have it. It is empty for Unclaimed.
func (s Status) String() string { return [...]string{"", "unknown", "forged", "verified"}[s] }

// Crawler is a crawler with the ways to tell it from those that claim to be it. One way that says yes is enough.
type Crawler struct {
	Name     string
	Words    []string // of which one is in its User-Agent, in any case
	Suffixes []string // with one of which the names of its hosts end, in lower case; each begins with a dot
	Ranges   []*File

	order int // in the set
}

// Claim is the crawlers whose words are in a User-Agent, in the order of the configuration. The zero value is none.
type Claim struct{ of []*Crawler }

// IsNone reports whether the request claims no crawler.
func (c Claim) IsNone() bool { return len(c.of) == 0 }

// Sender is where a request comes from.
type Sender struct {
	Address netip.Addr // the zero value: not known

	// Unbelieved says that a proxy in front names another client, which the server does not believe: all clients then have the
	// proxy's address.
	Unbelieved bool
}

// Identity is what is known of who sent a request. The zero value claims no crawler.
type Identity struct {
	claimed *Crawler // the one that is verified, or else the first that is claimed
	status  Status
	by      string // the name, or the path of the file, that verifies the claim
}

// Status returns what is known of the claim.
func (i Identity) Status() Status { return i.status }

// By returns what verifies the claim: a name of the address, or the path of a file of ranges. It is empty unless verified.
func (i Identity) By() string { return i.by }

// Claimed returns the name of the crawler that the request claims to come from; empty: it claims none.
func (i Identity) Claimed() string {
	if i.claimed == nil {
		return ""
	}
	return i.claimed.Name
}

// Crawler returns the name of the crawler that the request certainly comes from; empty: none.
func (i Identity) Crawler() string {
	if i.status != Verified {
		return ""
	}
	return i.claimed.Name
}

// Set is the crawlers of a configuration. [NewSet] makes one.
type Set struct {
	Crawlers []*Crawler
	Lookups  *Lookups      // nil: no crawler has names
	Wait     time.Duration // of a request for the name of its address, at most

	// OnPrivate is called once, after [privateClaims] claims from addresses that no client of the internet has. Required.
	OnPrivate func()

	words    *words
	believed atomic.Bool // a claim came from an address that the server believes
	private  atomic.Int32
}

// privateClaims is after how many claims from private addresses a proxy in front is supposed.
const privateClaims = 20

// NewSet returns the set of crawlers.
func NewSet(all []*Crawler, lookups *Lookups, wait time.Duration, onPrivate func()) *Set {
	for i, c := range all {
		c.order = i
	}
	return &Set{Crawlers: all, Lookups: lookups, Wait: wait, OnPrivate: onPrivate, words: newWords(all)}
}

// ClaimOf returns which crawlers a request claims to come from. A request with two User-Agents claims none.
func (s *Set) ClaimOf(header http.Header) Claim {
	if agents := header["User-Agent"]; len(agents) == 1 {
		return Claim{s.words.in(agents[0])}
	}
	return Claim{}
}

// Verify finds out whether a claim is true. It waits for the DNS at most as long as the set says.
func (s *Set) Verify(ctx context.Context, claim Claim, from Sender) Identity {
	return s.VerifyWithin(ctx, claim, from, s.Wait)
}

// VerifyWithin is [Set.Verify] with another longest wait.
func (s *Set) VerifyWithin(ctx context.Context, claim Claim, from Sender, wait time.Duration) Identity {
	return s.verify(claim, from, func(a netip.Addr) ([]string, Status) { return s.Lookups.Names(ctx, a, wait) })
}

// VerifyOffline is [Set.Verify] without a look-up: names are not known.
func (s *Set) VerifyOffline(claim Claim, from Sender) Identity {
	return s.verify(claim, from, func(netip.Addr) ([]string, Status) { return nil, Unknown })
}

// verify asks the ways of all claimed crawlers, ranges first. The claim is forged only if every way says no for certain.
func (s *Set) verify(claim Claim, from Sender, namesOf func(netip.Addr) ([]string, Status)) Identity {
	address := Canonical(from.Address)
	if claim.IsNone() || !address.IsValid() {
		return Identity{}
	}
	if !OfInternet(address) {
		if s.private.Load() < privateClaims && s.private.Add(1) == privateClaims {
			s.OnPrivate()
		}
		return Identity{claimed: claim.of[0], status: Unknown}
	}
	if !from.Unbelieved && !s.believed.Load() {
		s.believed.Store(true)
	}
	identity := byRanges(claim, address)
	if identity.status != Verified && slices.ContainsFunc(claim.of, func(c *Crawler) bool { return len(c.Suffixes) > 0 }) {
		identity = byNames(claim, identity, address, namesOf)
	}
	if identity.status == Forged && from.Unbelieved && !s.believed.Load() {
		identity.status = Unknown // the address is that of a proxy, with true crawlers behind it
	}
	return identity
}

// Trace finds out what a claim of each crawler from an address would be, and returns each question to the DNS.
func (s *Set) Trace(ctx context.Context, address netip.Addr) (claims []Identity, steps []Step) {
	names, status := []string(nil), Unknown
	inside := OfInternet(address)
	if inside && s.Lookups != nil {
		names, status, steps = s.Lookups.Trace(ctx, address)
	}
	for _, c := range s.Crawlers {
		claim := Claim{[]*Crawler{c}}
		identity := Identity{claimed: c, status: Unknown}
		if inside {
			identity = byRanges(claim, address)
		}
		if inside && identity.status != Verified && len(c.Suffixes) > 0 {
			identity = byNames(claim, identity, address, func(netip.Addr) ([]string, Status) { return names, status })
		}
		claims = append(claims, identity)
	}
	return claims, steps
}

// byRanges asks the ranges of the claimed crawlers.
func byRanges(claim Claim, address netip.Addr) Identity {
	status := Forged
	for _, c := range claim.of {
		for _, file := range c.Ranges {
			switch file.Has(address) {
			case Verified:
				return Identity{c, Verified, file.path}
			case Unknown:
				status = Unknown
			}
		}
	}
	return Identity{claimed: claim.of[0], status: status}
}

// byNames asks the names of an address, after the ranges said something else than yes.
func byNames(claim Claim, said Identity, address netip.Addr, namesOf func(netip.Addr) ([]string, Status)) Identity {
	names, status := namesOf(address)
	for _, c := range claim.of {
		for _, name := range names {
			if isUnder(name, c.Suffixes) {
				return Identity{c, Verified, name}
			}
		}
	}
	if status == Verified { // of another crawler
		status = Forged
	}
	return Identity{claimed: said.claimed, status: min(said.status, status)}
}
