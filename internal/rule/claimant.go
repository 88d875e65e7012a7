package rule

import (
	"net/http"
	"net/netip"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// ClaimantOf returns the client's address of a request that claims to come from a crawler; the zero value where there is no address, or
// the sender may have forged it. It reports whether a proxy names another client, which the server does not believe.
func ClaimantOf(r *http.Request) (address netip.Addr, unbelieved bool) {
	if isEarly(r) {
		return address, false
	}
	text, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, false
	}
	return address, isUnbelieved(r)
}
