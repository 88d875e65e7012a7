package challenge

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Result is what became of a challenge: a label of a metric, and a field of the access log.
type Result string

// The results.
const (
	Shown      Result = "shown"      // a browser got the page that waits
	Cookieless Result = "cookieless" // the request goes on, for one page: its browser has waited, and cannot say so by cookies
	Passed     Result = "passed"     // its ticket was exchanged for a pass
	file       Result = "file"       // it has loaded the style sheet of the page
	noCookies  Result = "no_cookies" // the ticket came back, and no cookie
	early      Result = "early"      // the ticket came back too early
	invalid    Result = "invalid"    // the ticket is none, old, or another network's
)

// parameter begins what a page that waits adds to the query: a ticket, or the token of the style sheet.
const parameter = "rl-pass="

// cutToken returns the text of the token that a query ends in, and the query before it.
func cutToken(query string) (before, text string, found bool) {
	last := strings.LastIndexByte(query, '&')
	text, found = strings.CutPrefix(query[last+1:], parameter)
	return query[:max(last, 0)], text, found
}

// BringsToken reports whether a request is one of a page that waits, by what the client sent: with a ticket, or for the style
// sheet.
func BringsToken(method string, target *url.URL) bool {
	_, _, found := cutToken(target.RawQuery)
	return found && (method == http.MethodGet || method == http.MethodHead)
}

// CutToken returns a query without the token that it ends in.
func CutToken(query string) string {
	if before, _, found := cutToken(query); found {
		return before
	}
	return query
}

// begins is from when on a ticket can be exchanged, and ends from when on no more.
func (t token) begins() time.Time { return time.Unix(t.time, 0) }
func (t token) ends() time.Time   { return t.begins().Add(life) }

// Early returns for how long a browser has to wait before its ticket is exchanged, at most as long as the page waits; 0: it
// has not to, or the ticket is good for nothing. A ticket is early where the browser has not waited, or where the clock of the
// node that issued it is ahead.
func (b *Browser) Early(sent *url.URL) time.Duration {
	_, text, _ := cutToken(sent.RawQuery)
	t, ok := b.read(text, kindTicket, kindProvenTicket)
	if rest := t.begins().Sub(b.keeper.now()); ok && rest > 0 && rest <= mostAhead {
		return min(rest, wait)
	}
	return 0
}

// HasWaited says that the browser has waited for as long as [Browser.Early] told: what is left is another clock's.
func (b *Browser) HasWaited() { b.ahead = mostAhead - wait }

// Exchange answers a request that brings a token by the URL that the browser sent, with what a page has, and says what became
// of the token: a good ticket is exchanged for a pass, with a redirection to the page that the browser wanted. Of
// [Cookieless] nothing is answered: the request goes on.
func (b *Browser) Exchange(w http.ResponseWriter, sent *url.URL, look Look) (Result, error) {
	query, text, _ := cutToken(sent.RawQuery)
	now := b.keeper.now()
	t, ok := b.read(text, kindTicket, kindProvenTicket, kindFile)
	target := targetOf(sent, query)
	switch {
	case ok && t.kind == kindFile && now.Before(t.ends()):
		return file, b.sendFile(w, text, look)
	case !ok || t.kind == kindFile || !now.Before(t.ends()):
		return invalid, b.sendOn(w, target)
	case t.begins().After(now.Add(b.ahead)):
		return early, b.sendOn(w, target)
	case t.kind == kindProvenTicket:
		return b.exchangeProven(w, t, query, target, look)
	case !b.keepsCookies():
		return noCookies, b.askForCookies(w, target, look)
	}
	return Passed, b.pass(w, t, target)
}

// exchangeProven exchanges a ticket that is good if the browser has loaded the style sheet. A browser that keeps no cookies, and
// one that was shown pages enough and loads no style sheet, as browsers for text do not, goes on without a pass. Another one is
// shown the page again: its line may be slow.
func (b *Browser) exchangeProven(w http.ResponseWriter, t token, query, target string, look Look) (Result, error) {
	pages, loaded := b.waits()
	if _, best := b.Pass(); loaded || best == Proven {
		return Passed, b.pass(w, t, target)
	}
	if pages < mostWaits && b.keepsCookies() {
		look.Proven = true
		return Shown, b.show(w, query, t.number, look)
	}
	if b.keeper.now().Before(t.begins().Add(onceLife)) {
		return Cookieless, nil
	}
	return invalid, b.sendOn(w, target)
}

// targetOf returns the page that a browser wanted, relative to the URL that it sent, with the query before the token. It can
// name no host.
func targetOf(sent *url.URL, query string) string {
	path := sent.EscapedPath()
	target := "./" + path[strings.LastIndexByte(path, '/')+1:]
	if query != "" {
		target += "?" + query
	}
	return target
}

// sendOn redirects a browser.
func (b *Browser) sendOn(w http.ResponseWriter, target string) error {
	begin(w.Header())
	w.Header().Set("Location", target)
	w.WriteHeader(http.StatusFound)
	return nil
}

// pass redirects a browser with the pass for its ticket. A browser that has loaded a style sheet stays one that has.
func (b *Browser) pass(w http.ResponseWriter, t token, target string) error {
	given, ends := kindPass, t.ends()
	age := ends.Sub(b.keeper.now())
	if _, best := b.Pass(); t.kind == kindProvenTicket || best == Proven {
		given, age = kindProvenPass, age+lateLife
	}
	b.setCookie(w, cookiePass, b.keeper.sign(token{given, t.number, ends.Unix()}, networkOf(b.address)), age)
	return b.sendOn(w, target)
}

// sendFile answers with the style sheet of the page that waits, and has the browser keep that it has loaded one. That of an
// operator's page is empty.
func (b *Browser) sendFile(w http.ResponseWriter, text string, look Look) error {
	styles := style
	if look.Own != nil {
		styles = ""
	}
	begin(w.Header())
	b.setCookie(w, cookieWait, text, life)
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(styles)))
	w.WriteHeader(http.StatusOK)
	_, err := w.Write([]byte(styles))
	return err
}
