package challenge

import (
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Outcome is what became of a challenge: a label of a metric, and a field of the access log.
type Outcome string

// The outcomes.
const (
	Shown     Outcome = "shown"      // a denied browser got the page that waits
	passed    Outcome = "passed"     // its ticket was exchanged for a pass
	noCookies Outcome = "no_cookies" // the ticket came back, and no cookie
	invalid   Outcome = "invalid"    // the ticket is none, early, old, or another network's
)

const (
	cookieWait = "rl-wait" // set with the page, so that the exchange sees whether there are cookies
	cookiePass = "rl-pass"

	// hostPrefix begins the names over TLS, which only the host itself can set: the cookies of http and https do not
	// replace each other.
	hostPrefix = "__Host-"

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
	for _, text := range b.cookies(cookiePass) {
		if t, valid := b.keeper.read(text, b.network, kindPass); valid && b.keeper.now().Unix() < t.time {
			return t.number, true
		}
	}
	return 0, false
}

// cookies returns the values of the first cookies of a name.
func (b *Browser) cookies(name string) (values []string) {
	for _, line := range b.request.Header["Cookie"] {
		for pair := range strings.SplitSeq(line, ";") {
			key, value, found := strings.Cut(strings.TrimSpace(pair), "=")
			key, overTLS := strings.CutPrefix(key, hostPrefix)
			if found && key == name && overTLS == (b.request.TLS != nil) && len(values) < maxCookies {
				values = append(values, value)
			}
		}
	}
	return values
}

// setCookie sets a cookie for a while.
func (b *Browser) setCookie(w http.ResponseWriter, name, value string, age time.Duration) {
	cookie := http.Cookie{Name: name, Value: value, Path: "/", MaxAge: int(age / time.Second), HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if b.request.TLS != nil {
		cookie.Name, cookie.Secure = hostPrefix+name, true
	}
	http.SetCookie(w, &cookie)
}

// IsNavigation reports whether a person sees the answer of a request that a client sent by a method, with a header.
func IsNavigation(method string, header http.Header) bool {
	if method != http.MethodGet || !strings.HasPrefix(header.Get("Accept"), "text/html") || header.Get("Range") != "" ||
		header.Get("X-Requested-With") != "" {
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

// Page answers with the page that waits for the one that the browser wanted, with a status. The ticket's number is one
// that a function accepts, which has to accept some.
func (b *Browser) Page(w http.ResponseWriter, status int, wanted *url.URL, accepts func(number uint16) bool) error {
	number := uint16(rand.Uint32())
	for !accepts(number) {
		number = uint16(rand.Uint32())
	}
	ready := b.keeper.now().Add(earliest).Unix()
	query := wanted.RawQuery
	if query != "" {
		query += "&"
	}
	b.setCookie(w, cookieWait, "1", life)
	return writePage(w, b.request, status, "?"+query+ticketParameter+b.keeper.sign(token{kindTicket, number, ready}, b.network), true)
}

// cutTicket returns the text of the ticket that a query ends in, and the query before it.
func cutTicket(query string) (before, ticket string, found bool) {
	last := strings.LastIndexByte(query, '&')
	ticket, found = strings.CutPrefix(query[last+1:], ticketParameter)
	return query[:max(last, 0)], ticket, found
}

// BringsTicket reports whether a request is one of the page that waits, by what the client sent.
func BringsTicket(method string, target *url.URL) bool {
	_, _, found := cutTicket(target.RawQuery)
	return found && (method == http.MethodGet || method == http.MethodHead)
}

// Exchange answers a request that brings a ticket by the URL that the browser sent, with a redirection to the page that
// it wanted, and says what became of the ticket. The status is that of a page without cookies.
func (b *Browser) Exchange(w http.ResponseWriter, status int, sent *url.URL) (Outcome, error) {
	query, text, _ := cutTicket(sent.RawQuery)
	path := sent.EscapedPath()
	target := "./" + path[strings.LastIndexByte(path, '/')+1:]
	if query != "" {
		target += "?" + query
	}
	now := b.keeper.now()
	t, valid := b.keeper.read(text, b.network, kindTicket)
	ends := time.Unix(t.time, 0).Add(life)
	valid = valid && t.time <= now.Unix() && now.Before(ends)
	if valid && len(b.cookies(cookieWait))+len(b.cookies(cookiePass)) == 0 {
		return noCookies, writePage(w, b.request, status, target, false)
	}
	begin(w.Header())
	outcome := invalid
	if valid {
		b.setCookie(w, cookiePass, b.keeper.sign(token{kindPass, t.number, ends.Unix()}, b.network), ends.Sub(now))
		outcome = passed
	}
	w.Header().Set("Location", target)
	w.WriteHeader(http.StatusFound)
	return outcome, nil
}
