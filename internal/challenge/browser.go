package challenge

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	cookieWait = "rl-wait" // set with the page, so that the exchange sees whether there are cookies, and by its style sheet
	cookiePass = "rl-pass"

	// hostPrefix begins the names over TLS, which only the host itself can set: the cookies of http and https do not
	// replace each other.
	hostPrefix = "__Host-"

	// maxCookies is how many cookies of a name are tried: others may be set by other sites of a domain.
	maxCookies = 4

	// mostWaits is how many pages a browser is shown that keeps cookies and does not load the style sheet.
	mostWaits = 3
)

// Browser is a request as this package sees it.
type Browser struct {
	keeper  *Keeper
	request *http.Request
	address string
	ahead   time.Duration // how early a ticket may be, as the browser has waited for as long as it may
}

// Browser returns the browser of a request from an address.
func (k *Keeper) Browser(r *http.Request, address string) Browser {
	return Browser{keeper: k, request: r, address: address}
}

// read returns the token of one of some kinds that a text is, if it was signed for the browser's network.
func (b *Browser) read(text string, wanted ...kind) (token, bool) {
	return b.keeper.read(text, networkOf(b.address), wanted...)
}

// Standing is what a browser's pass says of it. A greater one is good for all that a smaller one is.
type Standing int

// The standings.
const (
	NoPass Standing = iota
	Late            // the pass of a browser that had loaded the style sheet has ended less than 3 hours ago
	Waited          // the browser has waited
	Proven          // the browser has waited and loaded the style sheet
)

// Pass returns the best pass that a request brings along, and its number.
func (b *Browser) Pass() (number uint16, best Standing) {
	now := b.keeper.now().Unix()
	for _, text := range b.cookies(cookiePass) {
		t, ok := b.read(text, kindPass, kindProvenPass)
		if found := t.standing(now); ok && found > best {
			number, best = t.number, found
		}
	}
	return number, best
}

// standing returns what a pass is good for at a time in seconds since 1970.
func (t token) standing(now int64) Standing {
	proven := t.kind == kindProvenPass
	switch {
	case now < t.time && proven:
		return Proven
	case now < t.time:
		return Waited
	case proven && now < t.time+int64(lateLife/time.Second):
		return Late
	}
	return NoPass
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

// setCookie sets a cookie for a while. Its value is a number or a token.
func (b *Browser) setCookie(w http.ResponseWriter, name, value string, age time.Duration) {
	header := w.Header()
	header["Set-Cookie"] = append(header["Set-Cookie"], cookieText(name, value, age, b.request.TLS != nil))
}

// cookieText returns a header Set-Cookie.
func cookieText(name, value string, age time.Duration, overTLS bool) string {
	prefix, secure := "", ""
	if overTLS {
		prefix, secure = hostPrefix, "; Secure"
	}
	return prefix + name + "=" + value + "; Path=/; Max-Age=" + strconv.Itoa(int(age/time.Second)) + "; HttpOnly" + secure + "; SameSite=Lax"
}

// firstWait is the cookie of the first page that waits, which most strangers in a flood get.
var firstWait = cookieText(cookieWait, "1", life, false)

// keepsCookies reports whether the browser brings back a cookie of this package.
func (b *Browser) keepsCookies() bool {
	return len(b.cookies(cookieWait))+len(b.cookies(cookiePass)) > 0
}

// waits returns how many pages the browser was shown so far, by its cookies, and whether it has loaded a page's style sheet.
func (b *Browser) waits() (pages int, loaded bool) {
	now := b.keeper.now()
	for _, text := range b.cookies(cookieWait) {
		if n, err := strconv.ParseUint(text, 10, 8); err == nil && n <= mostWaits {
			pages = max(pages, int(n))
		} else if t, ok := b.read(text, kindFile); ok && now.Before(t.ends()) {
			loaded = true
		}
	}
	return pages, loaded
}

// noteWait sets the cookie of one more page that waits, unless the browser has loaded the style sheet of an earlier page.
func (b *Browser) noteWait(w http.ResponseWriter) {
	switch pages, loaded := b.waits(); {
	case loaded:
	case pages == 0 && b.request.TLS == nil:
		header := w.Header()
		header["Set-Cookie"] = append(header["Set-Cookie"], firstWait)
	default:
		b.setCookie(w, cookieWait, strconv.Itoa(min(pages+1, mostWaits)), life)
	}
}

// IsNavigation reports whether a person sees the answer of a request that a client sent by a method, with a header.
func IsNavigation(method string, header http.Header) bool {
	if method != http.MethodGet || !strings.HasPrefix(first(header["Accept"]), "text/html") || first(header["Range"]) != "" ||
		first(header["X-Requested-With"]) != "" {
		return false
	}
	for _, name := range [...]string{"Sec-Purpose", "Purpose", "X-Moz"} {
		if purpose := first(header[name]); purpose != "" && strings.Contains(strings.ToLower(purpose), "prefetch") {
			return false
		}
	}
	switch first(header["Sec-Fetch-Mode"]) {
	case "": // over plain http
		return true
	case "navigate":
		destination := first(header["Sec-Fetch-Dest"])
		return destination == "document" || destination == "empty" // of a service worker
	}
	return false
}

// first returns the first value of a header; empty if there is none.
func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
