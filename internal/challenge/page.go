package challenge

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// waitSeconds is how long the page waits, as a header and the page say it.
const waitSeconds = "1"

// sentence is what the built-in pages say in a language: the one that waits, and the one for a browser without cookies. Attributes are
// those of an element in that language besides lang.
type sentence struct{ language, attributes, waits, asks string }

const rightToLeft = " dir=rtl"

// sentences are those of all languages, English first.
var sentences = [...]sentence{
	{"en", "", "This page opens by itself in a moment.", "Allow cookies, then open this page again."},
	{"de", "", "Diese Seite öffnet sich gleich von selbst.", "Erlauben Sie Cookies und öffnen Sie diese Seite noch einmal."},
	{"es", "", "Esta página se abre sola enseguida.", "Permita las cookies y abra esta página de nuevo."},
	{"fr", "", "Cette page s’ouvre d’elle-même dans un instant.", "Autorisez les cookies, puis ouvrez cette page à nouveau."},
	{"ar", rightToLeft, "ستفتح هذه الصفحة من تلقاء نفسها بعد لحظة.", "اسمح بملفات تعريف الارتباط، ثم افتح هذه الصفحة مرة أخرى."},
	{"he", rightToLeft, "הדף הזה ייפתח מעצמו בעוד רגע.", "יש לאפשר קובצי Cookie ולפתוח את הדף הזה שוב."},
}

// style has a bar that fills while the page waits, in light and dark colors.
const style = "body{margin:0;font:1.1rem/1.5 system-ui,sans-serif;background:#f2f4f7;color:#1a1f24}" +
	"main{max-width:30rem;margin:20vh auto 0;padding:2rem;background:#fff;border-radius:.75rem}" +
	"b{display:block;font-size:1.3rem;overflow-wrap:anywhere}a{color:inherit}" +
	"i{display:block;margin-top:1.5rem;border-radius:1rem;background:#8885}" +
	"i:after{content:'';display:block;height:.3rem;border-radius:1rem;background:#1f5fa8;animation:w " + waitSeconds + "s linear}" +
	"@keyframes w{from{width:0}}" +
	"@media(prefers-color-scheme:dark){body{background:#14181d;color:#e9ecef}main{background:#22272d}i:after{background:#8ab8f0}}" +
	"@media(prefers-reduced-motion:reduce){i:after{animation:none}}"

var styleHash = sha256.Sum256([]byte(style))

// The policies of pages. No page is framed, has a form or changes what its links are relative to. The built-in page loads
// nothing but the style sheet by which a browser shows that it is one.
const unframed = ";base-uri 'none';form-action 'none';frame-ancestors 'none'"

var policyOfPlain = "default-src 'none';style-src 'sha256-" + base64.StdEncoding.EncodeToString(styleHash[:]) + "'" + unframed

const policyOfProven = "default-src 'none';style-src 'self'" + unframed

const policyOfOwn = "default-src 'self';style-src 'self' 'unsafe-inline';img-src 'self' data:" + unframed

// sentenceFor returns what is said in the first language of headers Accept-Language that there are sentences in; otherwise in
// English.
func sentenceFor(headers []string) *sentence {
	for _, header := range headers {
		for part := range strings.SplitSeq(header, ",") {
			tag, _, _ := strings.Cut(part, ";")
			language, _, _ := strings.Cut(strings.TrimSpace(tag), "-")
			for i := range sentences {
				if strings.EqualFold(sentences[i].language, language) {
					return &sentences[i]
				}
			}
		}
	}
	return &sentences[0]
}

// MaxPage is the most bytes of a page of the operator's.
const MaxPage = 64 << 10

// The placeholders of a page of the operator's.
const (
	linkPlaceholder  = "{challenge.link}"
	stylePlaceholder = "{challenge.stylesheet}"
)

// Page is a page that waits, as the operator has written it. Nil is the built-in one.
type Page struct {
	parts     [3]string // before, between and behind the placeholders
	fileFirst bool      // the style sheet's placeholder stands first
}

// ParsePage reads a page: HTML with each of both placeholders once.
func ParsePage(text string) (*Page, error) {
	if len(text) > MaxPage {
		return nil, fmt.Errorf("has %d bytes; use at most %d", len(text), MaxPage)
	}
	if !utf8.ValidString(text) {
		return nil, errors.New("is not in UTF-8")
	}
	for _, p := range []struct{ name, example string }{
		{linkPlaceholder, `<meta http-equiv="refresh" content="1;url=` + linkPlaceholder + `">`},
		{stylePlaceholder, `<link rel="stylesheet" href="` + stylePlaceholder + `">`},
	} {
		switch n := strings.Count(text, p.name); {
		case n == 0:
			return nil, fmt.Errorf("lacks %s; write %s into its head", p.name, p.example)
		case n > 1:
			return nil, fmt.Errorf("has %s %d times; write it once", p.name, n)
		}
	}
	first, second := linkPlaceholder, stylePlaceholder
	p := &Page{fileFirst: strings.Index(text, stylePlaceholder) < strings.Index(text, linkPlaceholder)}
	if p.fileFirst {
		first, second = second, first
	}
	var rest string
	p.parts[0], rest, _ = strings.Cut(text, first)
	p.parts[1], p.parts[2], _ = strings.Cut(rest, second)
	return p, nil
}

// text returns the page with its links, which are escaped.
func (p *Page) text(link, styleSheet string) string {
	if p.fileFirst {
		link, styleSheet = styleSheet, link
	}
	return p.parts[0] + link + p.parts[1] + styleSheet + p.parts[2]
}

// Look is how a handler's page that waits looks.
type Look struct {
	Status int

	// Own is the operator's page; nil: the built-in one.
	Own *Page

	// Proven says that the wait counts only of browsers that load the page's style sheet.
	Proven bool
}

// Page answers with the page that waits for the one that the browser wanted, by the query that it sent. The ticket's number is
// one that a function accepts, which has to accept some.
func (b *Browser) Page(w http.ResponseWriter, query string, look Look, accepts func(number uint16) bool) error {
	number := newNumber()
	for !accepts(number) {
		number = newNumber()
	}
	return b.show(w, query, number, look)
}

// show answers with the page that waits, whose ticket has a number. In a flood each refusal of a reserve is such a page: the way
// is as short as that of a line of text.
func (b *Browser) show(w http.ResponseWriter, query string, number uint16, look Look) error {
	ticket := token{kindTicket, number, b.keeper.now().Unix() + int64(wait/time.Second)}
	if look.Proven {
		ticket.kind = kindProvenTicket
	}
	text, loaded := b.keeper.signPage(ticket, networkOf(b.address))
	before := "?" + parameter // of a link that is relative to the page
	if query != "" {
		before = "?" + html.EscapeString(query) + "&amp;" + parameter
	}
	b.noteWait(w)
	page, policy := []byte(nil), policyOfPlain
	switch {
	case look.Own != nil:
		page, policy = append(page, look.Own.text(before+text, before+loaded)...), policyOfOwn
	case look.Proven:
		policy = policyOfProven
		page = b.appendWaiting(make([]byte, 0, 1024), before, text, `"><link rel=stylesheet href="`, before, loaded)
	default:
		page = b.appendWaiting(make([]byte, 0, 1024+len(pageStyle)), before, text)
	}
	w.Header()["Retry-After"] = []string{waitSeconds}
	return look.write(w, page, policy)
}

// appendWaiting appends the built-in page that waits, with pieces of what stands behind its refresh: where that leads to, and the
// style sheet's element without its end.
func (b *Browser) appendWaiting(page []byte, before, text string, sheet ...string) []byte {
	s := sentenceFor(b.request.Header["Accept-Language"])
	page = appendAll(page, pageBegins, s.language, s.attributes, pageHead, `<meta http-equiv=refresh content="`+waitSeconds+`;url=`, before, text)
	page = appendAll(appendAll(page, sheet...), `">`, "<title>", s.waits, "</title>")
	if len(sheet) == 0 {
		page = appendAll(page, pageStyle)
	}
	return appendAll(page, pageSite, siteOf(b.request.Host), pageLink, before, text, `">`, s.waits, "</a>", pageBar)
}

// askForCookies answers with a page that leads to the one that the browser wanted, and does not wait.
func (b *Browser) askForCookies(w http.ResponseWriter, target string, look Look) error {
	s := sentenceFor(b.request.Header["Accept-Language"])
	page := appendAll(nil, pageBegins, s.language, s.attributes, pageHead, "<title>", s.asks, "</title>", pageStyle)
	page = appendAll(page, pageSite, siteOf(b.request.Host), pageLink, html.EscapeString(target), `">`, s.asks, "</a>")
	return look.write(w, page, policyOfPlain)
}

// mostSite is the longest name of a site that a page shows, in bytes.
const mostSite = 100

// siteOf returns the name of the site that a request asks for, by its Host without a port; empty if that is long, or has what no
// name has and what HTML might read as markup.
func siteOf(host string) string {
	if port := strings.LastIndexByte(host, ':'); port > strings.IndexByte(host, ']') {
		host = host[:port]
	}
	if len(host) > mostSite {
		return ""
	}
	for i := range len(host) {
		c := host[i]
		if letter := c|0x20 >= 'a' && c|0x20 <= 'z'; !letter && (c < '-' || c > ':' || c == '/') && c != '[' && c != ']' {
			return ""
		}
	}
	return host
}

// The parts of a built-in page: the site's name, a sentence that is a link, and a bar.
const (
	pageBegins = "<!doctype html><html lang="
	pageHead   = `><meta charset=utf-8><meta name=viewport content="width=device-width,initial-scale=1">` +
		`<meta name=color-scheme content="light dark">`
	pageStyle = "<style>" + style + "</style>" // where there is no style sheet
	pageSite  = "<main><b><bdi>"
	pageLink  = `</bdi></b><a href="`
	pageBar   = "<i></i>"
)

// appendAll appends texts.
func appendAll(page []byte, texts ...string) []byte {
	for _, text := range texts {
		page = append(page, text...)
	}
	return page
}

// write answers with a page under a policy.
func (l *Look) write(w http.ResponseWriter, page []byte, policy string) error {
	header := w.Header()
	begin(header)
	values := &[...]string{"text/html; charset=utf-8", strconv.Itoa(len(page)), policy}
	header["Content-Type"], header["Content-Length"], header["Content-Security-Policy"] = values[0:1:1], values[1:2:2], values[2:3:3]
	w.WriteHeader(l.Status)
	_, err := w.Write(page)
	return err
}

// begin makes a header that of an answer of this package: it is not stored, and says nothing of the page that handlers
// further out expected.
func begin(header http.Header) {
	for _, name := range [...]string{"Content-Disposition", "Content-Encoding", "Etag", "Last-Modified", "Link", "Refresh"} {
		delete(header, name)
	}
	header["Cache-Control"] = []string{"no-store"}
}
