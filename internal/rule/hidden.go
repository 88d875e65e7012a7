package rule

import (
	"math"
	"net/http"
	"net/netip"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// firstDenials is after how many denials of one private address this address is reported as probably not a client's.
const firstDenials = 1000

// namingHeaders are headers that name a client. A proxy that sends one is in front; a network that hides clients sends no such header.
var namingHeaders = []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "True-Client-Ip", "Cf-Connecting-Ip"}

// hiddenWatch finds out whether a network in front, such as the network of containers, gives all clients one address. It looks at
// the first denials of a rule, and at no request that passes.
type hiddenWatch struct {
	report func()

	denials atomic.Int32               // from that address; below 0: the watch has ended
	address atomic.Pointer[netip.Addr] // of the first denial
}

func (w *hiddenWatch) look(r *http.Request) {
	address, ok := unnamedPrivate(r)
	if ok {
		first := &address
		if !w.address.CompareAndSwap(nil, first) {
			ok = *w.address.Load() == address
		}
	}
	switch {
	case !ok:
		w.denials.Store(math.MinInt32)
	case w.denials.Add(1) == firstDenials:
		w.denials.Store(math.MinInt32)
		w.report()
	}
}

// unnamedPrivate returns the private address of a request's client, if no header names a client.
func unnamedPrivate(r *http.Request) (netip.Addr, bool) {
	for _, name := range namingHeaders {
		if len(r.Header[name]) > 0 {
			return netip.Addr{}, false
		}
	}
	text, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	address, err := netip.ParseAddr(text)
	address = address.Unmap().WithZone("")
	return address, err == nil && address.IsPrivate()
}
