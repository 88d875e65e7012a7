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

// sentences are what the built-in pages say by language: the one that waits, and the one for a browser without cookies.
var sentences = map[string]struct{ waits, asks string }{
	"en": {"This page opens by itself in a moment.", "Allow cookies, then open this page again."},
	"de": {"Diese Seite öffnet sich gleich von selbst.", "Erlauben Sie Cookies und öffnen Sie diese Seite noch einmal."},
	"es": {"Esta página se abre sola en un momento.", "Permita las cookies y abra esta página de nuevo."},
	"fr": {"Cette page s’ouvre d’elle-même dans un instant.", "Autorisez les cookies, puis ouvrez cette page à nouveau."},
}

const style = "body{font:1.1rem/1.5 sans-serif;margin:0}main{max-width:40rem;margin:20vh auto;padding:0 1rem}"

var styleHash = sha256.Sum256([]byte(style))

// The policies of pages. No page is framed, has a form or changes what its links are relative to. The built-in page loads
// nothing but the style sheet by which a browser shows that it is one.
const unframed = ";base-uri 'none';form-action 'none';frame-ancestors 'none'"

var (
	policyOfPlain  = "default-src 'none';style-src 'sha256-" + base64.StdEncoding.EncodeToString(styleHash[:]) + "'" + unframed
	policyOfProven = strings.Replace(policyOfPlain, "style-src ", "style-src 'self' ", 1)
)

const policyOfOwn = "default-src 'self';style-src 'self' 'unsafe-inline';img-src 'self' data:" + unframed

// languageOf returns the first language of a header Accept-Language that there are sentences in; otherwise English.
func languageOf(header string) string {
	for part := range strings.SplitSeq(header, ",") {
		tag, _, _ := strings.Cut(part, ";")
		language, _, _ := strings.Cut(strings.TrimSpace(tag), "-")
		if language = strings.ToLower(language); sentences[language].waits != "" {
			return language
		}
	}
	return "en"
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

// show answers with the page that waits, whose ticket has a number.
func (b *Browser) show(w http.ResponseWriter, query string, number uint16, look Look) error {
	ready := b.keeper.now().Unix() + int64(wait/time.Second)
	ticket := token{kindTicket, number, ready}
	if look.Proven {
		ticket.kind = kindProvenTicket
	}
	link := html.EscapeString(linkWith(query, b.keeper.sign(ticket, b.network)))
	styleSheet := ""
	if look.Proven || look.Own != nil {
		loaded := token{kindFile, number, ready + int64(life/time.Second)}
		styleSheet = html.EscapeString(linkWith(query, b.keeper.sign(loaded, b.network)))
	}
	b.noteWait(w)
	w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)))
	if look.Own != nil {
		return look.write(w, look.Own.text(link, styleSheet), policyOfOwn)
	}
	head := `<meta http-equiv=refresh content="` + strconv.Itoa(int(wait/time.Second)) + `;url=` + link + `">`
	policy := policyOfPlain
	if look.Proven {
		head, policy = head+`<link rel=stylesheet href="`+styleSheet+`">`, policyOfProven
	}
	language := languageOf(b.request.Header.Get("Accept-Language"))
	return look.write(w, builtIn(language, sentences[language].waits, link, head), policy)
}

// askForCookies answers with a page that leads to the one that the browser wanted, and does not wait.
func (b *Browser) askForCookies(w http.ResponseWriter, target string, look Look) error {
	language := languageOf(b.request.Header.Get("Accept-Language"))
	return look.write(w, builtIn(language, sentences[language].asks, html.EscapeString(target), ""), policyOfPlain)
}

// write answers with a page under a policy.
func (l *Look) write(w http.ResponseWriter, page, policy string) error {
	header := w.Header()
	begin(header)
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(len(page)))
	header.Set("Content-Security-Policy", policy)
	w.WriteHeader(l.Status)
	_, err := w.Write([]byte(page))
	return err
}

// builtIn returns a page in a language that is a sentence, which is a link. The link is escaped.
func builtIn(language, sentence, link, head string) string {
	return "<!doctype html><html lang=" + language + `><meta charset=utf-8><meta name=viewport ` +
		`content="width=device-width,initial-scale=1">` +
		`<meta name=color-scheme content="light dark">` + head + "<title>" + sentence + "</title><style>" + style +
		`</style><main><a href="` + link + `">` + sentence + "</a></main>"
}

// begin makes a header that of an answer of this package: it is not stored, and says nothing of the page that handlers
// further out expected.
func begin(header http.Header) {
	for _, name := range []string{"Content-Disposition", "Content-Encoding", "Etag", "Last-Modified", "Link", "Refresh"} {
		header.Del(name)
	}
	header.Set("Cache-Control", "no-store")
}
