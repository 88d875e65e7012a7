package crawlers

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Resolver asks the DNS, as [net.Resolver] does.
type Resolver interface {
	LookupAddr(ctx context.Context, address string) (names []string, err error)
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// NewResolver returns Go's resolver. It asks a server by its address and port; empty: those of the system.
func NewResolver(server string) *net.Resolver {
	r := &net.Resolver{PreferGo: true}
	if server != "" {
		r.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, server)
		}
	}
	return r
}

const (
	lookupTimeout = 2 * time.Second // of all questions about an address
	mostNames     = 8               // of an address that are confirmed
)

// tries are how long an answer is waited for before the question is sent again. Go's resolver sends it again after five seconds.
var tries = []time.Duration{lookupTimeout / 4, lookupTimeout * 3 / 4}

// Step is a question to the DNS, with its answer.
type Step struct {
	Question string
	Answers  []string
	Took     time.Duration
	Err      error // nil: none. It names no server: Go's names one of resolv.conf, whichever was asked.
}

// answer is what the DNS says of an address.
type answer struct {
	names    []string // under one of the suffixes, and confirmed by the address; empty unless verified
	status   Status   // unknown where the resolver cannot say; forged: it certainly has none
	hasNames bool     // the address has a name, of a crawler or not
	steps    []Step
}

// inquiry is what is asked about an address.
type inquiry struct {
	resolver Resolver
	suffixes []string
	address  netip.Addr
	now      func() time.Time
	answer
}

// inquire asks for the names of an address, and for the addresses of those that are under one of the suffixes.
func inquire(ctx context.Context, r Resolver, address netip.Addr, suffixes []string) answer {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	q := &inquiry{resolver: r, suffixes: suffixes, address: address, now: time.Now}
	names, err := ask(ctx, q, "names of "+address.String(), slices.Clone[[]string], func(ctx context.Context) ([]string, error) {
		return r.LookupAddr(ctx, address.String())
	})
	if q.hasNames = len(names) > 0; !q.hasNames && !isNotFound(err) {
		q.status = Unknown
		return q.answer
	}
	q.status = Forged // an error beside names is about others that are invalid
	q.confirm(ctx, names)
	return q.answer
}

// confirm keeps the names that have the address.
func (q *inquiry) confirm(ctx context.Context, names []string) {
	asked := 0
	for _, name := range names {
		name = strings.ToLower(strings.TrimSuffix(name, "."))
		if !isUnder(name, q.suffixes) {
			continue
		}
		if asked++; asked > mostNames {
			break
		}
		addresses, err := q.addressesOf(ctx, name)
		if slices.ContainsFunc(addresses, func(a netip.Addr) bool { return a.Unmap() == q.address }) {
			q.names = append(q.names, name)
		} else if err != nil && !isNotFound(err) {
			q.status = Unknown
		}
	}
	if len(q.names) > 0 {
		q.status = Verified
	}
}

// addressesOf asks for the addresses of a name, of the kind of the address. A dot ends the name, so that no search domain does.
func (q *inquiry) addressesOf(ctx context.Context, name string) ([]netip.Addr, error) {
	network := "ip6"
	if q.address.Is4() {
		network = "ip4"
	}
	return ask(ctx, q, "addresses of "+name, textsOf, func(ctx context.Context) ([]netip.Addr, error) {
		return q.resolver.LookupNetIP(ctx, network, name+".")
	})
}

func textsOf(addresses []netip.Addr) (texts []string) {
	for _, a := range addresses {
		texts = append(texts, a.Unmap().String())
	}
	return texts
}

// ask asks again if no answer comes in time, and notes the step.
func ask[T any](
	ctx context.Context, q *inquiry, question string, texts func(T) []string, once func(context.Context) (T, error),
) (got T, err error) {
	began := q.now()
	for _, wait := range tries {
		try, cancel := context.WithTimeout(ctx, wait)
		got, err = once(try)
		expired := try.Err() != nil || isTimeout(err) // whose deadline the resolver may see first
		cancel()
		if err == nil || !expired {
			break
		}
	}
	q.steps = append(q.steps, Step{question, texts(got), q.now().Sub(began), withoutServer(err)})
	return got, err
}

// isNotFound reports whether the DNS says for certain that there is none. Other errors are none of this: REFUSED is neither a
// timeout nor temporary for Go.
func isNotFound(err error) bool {
	var e *net.DNSError
	return errors.As(err, &e) && e.IsNotFound
}

func isTimeout(err error) bool {
	var e *net.DNSError
	return errors.As(err, &e) && e.IsTimeout
}

// withoutServer returns an error that names no server.
func withoutServer(err error) error {
	var e *net.DNSError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &e):
		return err
	case isTimeout(err):
		return errors.New("no answer in time")
	}
	return errors.New(e.Err)
}

// isUnder reports whether a name ends with one of the suffixes, which begin with a dot, and is longer.
func isUnder(name string, suffixes []string) bool {
	return slices.ContainsFunc(suffixes, func(s string) bool { return len(name) > len(s) && strings.HasSuffix(name, s) })
}
