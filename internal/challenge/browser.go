package challenge

import (
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Outcome is what became of a challenge: a label of a metric, and a field of the access log.
type Outcome string

// The outcomes.
const (
	Shown     Outcome = "shown"      // a denied browser got the page that waits
	Passed    Outcome = "passed"     // its ticket was exchanged for a pass
	NoCookies Outcome = "no_cookies" // the ticket came back, and no cookie
	Invalid   Outcome = "invalid"    // the ticket is none, early, old, or another network's
)

const (
	cookieWait = "rl-wait" // set with the page, so that the exchange sees whether there are cookies
	cookiePass = "rl-pass"

	ticketParameter = "rl-pass="

	// maxCookies is how many cookies of a name are tried: others may be set by other sites of a domain.
	maxCookies = 4
)

// Browser is a request as this package sees it.
type Browser struct {
	keeper  *Keeper
	request *http.Request
	network network
}

// Browser returns the browser of a request from an address.
func (k *Keeper) Browser(r *http.Request, address string) Browser {
	return Browser{k, r, networkOf(address)}
}

// Pass returns the number of a valid pass that a request brings along.
func (b *Browser) Pass() (number uint16, ok bool) {
	secrets := b.keeper.secrets.Load()
	if secrets == nil || len(b.request.Header["Cookie"]) == 0 {
		return 0, false
	}
	now := b.keeper.now().Unix()
	b.cookies(cookiePass, func(text string) bool {
		t, signed := secrets.read(text, b.network)
		if ok = signed && t.kind == kindPass && t.time > now; ok {
			number = t.number
		}
		return ok
	})
	return number, ok
}

// cookies calls a function for the cookies of a name, until it returns true.
func (b *Browser) cookies(name string, found func(value string) bool) {
	name = b.cookieName(name) + "="
	left := maxCookies
	for _, line := range b.request.Header["Cookie"] {
		for line != "" && left > 0 {
			var pair string
			pair, line, _ = strings.Cut(line, ";")
			value, matches := strings.CutPrefix(strings.TrimSpace(pair), name)
			if !matches {
				continue
			}
			if left--; found(value) {
				return
			}
		}
	}
}

// cookieName returns the name that a cookie has. Over TLS it is another one, which only the host itself can set: the
// cookies of http and https do not replace each other.
func (b *Browser) cookieName(name string) string {
	if b.request.TLS != nil {
		return "__Host-" + name
	}
	return name
}

// setCookie sets a cookie for a while.
func (b *Browser) setCookie(header http.Header, name, value string, age time.Duration) {
	text := b.cookieName(name) + "=" + value + "; Path=/; Max-Age=" + strconv.FormatInt(int64(age/time.Second), 10) + "; HttpOnly; SameSite=Lax"
	if b.request.TLS != nil {
		text += "; Secure"
	}
	header.Add("Set-Cookie", text)
}

// original returns the method and the URL that the client sent.
func original(r *http.Request) (method string, target *url.URL) {
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		return original.Method, original.URL
	}
	return r.Method, r.URL
}

// IsNavigation reports whether a person sees the answer of a request.
func IsNavigation(r *http.Request) bool {
	header := r.Header
	if method, _ := original(r); method != http.MethodGet ||
		!strings.HasPrefix(header.Get("Accept"), "text/html") || header.Get("Range") != "" || header.Get("X-Requested-With") != "" {
		return false
	}
	for _, name := range []string{"Sec-Purpose", "Purpose", "X-Moz"} {
		if strings.Contains(strings.ToLower(header.Get(name)), "prefetch") {
			return false
		}
	}
	switch header.Get("Sec-Fetch-Mode") {
	case "": // over plain http
		return true
	case "navigate":
		destination := header.Get("Sec-Fetch-Dest")
		return destination == "document" || destination == "empty" // of a service worker
	}
	return false
}

// Page answers with the page that waits, with a status. The ticket's number is one that a function accepts, which has
// to accept some.
func (b *Browser) Page(w http.ResponseWriter, status int, accepts func(number uint16) bool) error {
	number := uint16(rand.Uint32())
	for !accepts(number) {
		number = uint16(rand.Uint32())
	}
	ready := b.keeper.now().Add(earliest).Unix()
	text := b.keeper.secrets.Load().sign(token{kindTicket, number, ready}, b.network)
	_, target := original(b.request)
	query := target.RawQuery
	if query != "" {
		query += "&"
	}
	b.setCookie(w.Header(), cookieWait, "1", life)
	return writePage(w, b.request, status, "?"+query+ticketParameter+text, true)
}

// cutTicket returns the text of the ticket that a query ends in, and the query before it.
func cutTicket(query string) (before, ticket string, found bool) {
	before, last := "", query
	if at := strings.LastIndexByte(query, '&'); at >= 0 {
		before, last = query[:at], query[at+1:]
	}
	ticket, found = strings.CutPrefix(last, ticketParameter)
	return before, ticket, found
}

// BringsTicket reports whether a request is one of the page that waits.
func BringsTicket(r *http.Request) bool {
	method, target := original(r)
	_, _, found := cutTicket(target.RawQuery)
	return found && (method == http.MethodGet || method == http.MethodHead)
}

// Exchange answers a request that brings a ticket, with a redirection to the page that the browser wanted, and says what
// became of the ticket. The status is that of a page without cookies.
func (b *Browser) Exchange(w http.ResponseWriter, status int) (Outcome, error) {
	_, wanted := original(b.request)
	query, text, _ := cutTicket(wanted.RawQuery)
	path := wanted.EscapedPath()
	target := "./" + path[strings.LastIndexByte(path, '/')+1:]
	if query != "" {
		target += "?" + query
	}
	t, valid := b.ticket(text)
	if valid && !b.hasCookies() {
		return NoCookies, writePage(w, b.request, status, target, false)
	}
	header, outcome := w.Header(), Invalid
	begin(header)
	if valid {
		ends := time.Unix(t.time, 0).Add(life)
		pass := b.keeper.secrets.Load().sign(token{kindPass, t.number, ends.Unix()}, b.network)
		b.setCookie(header, cookiePass, pass, ends.Sub(b.keeper.now()))
		outcome = Passed
	}
	header.Set("Location", target)
	w.WriteHeader(http.StatusFound)
	return outcome, nil
}

// ticket returns the ticket of a text, if it can be exchanged.
func (b *Browser) ticket(text string) (t token, ok bool) {
	secrets := b.keeper.secrets.Load()
	if secrets == nil {
		return t, false
	}
	t, ok = secrets.read(text, b.network)
	now := b.keeper.now().Unix()
	return t, ok && t.kind == kindTicket && t.time <= now && now < t.time+int64(life/time.Second)
}

// hasCookies reports whether the browser sends cookies of this package.
func (b *Browser) hasCookies() (has bool) {
	for _, name := range []string{cookieWait, cookiePass} {
		b.cookies(name, func(string) bool { has = true; return true })
	}
	return has
}
