package challenge

import (
	"crypto/sha256"
	"encoding/base64"
	"html"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// sentences are what a page says by language: of the page that waits, and of the one for a browser without cookies.
var sentences = map[string][2]string{
	"en": {"This page opens by itself in a few seconds, if cookies are allowed.", "Allow cookies, then open this page again."},
	"de": {"Diese Seite öffnet sich in wenigen Sekunden von selbst, wenn Cookies erlaubt sind.",
		"Erlauben Sie Cookies und öffnen Sie diese Seite noch einmal."},
	"es": {"Esta página se abre sola en unos segundos, si las cookies están permitidas.", "Permita las cookies y abra esta página de nuevo."},
	"fr": {"Cette page s’ouvre d’elle-même dans quelques secondes, si les cookies sont autorisés.",
		"Autorisez les cookies, puis ouvrez cette page à nouveau."},
}

const style = "body{font:1.1rem/1.5 sans-serif;margin:0}main{max-width:40rem;margin:20vh auto;padding:0 1rem}"

var styleHash = sha256.Sum256([]byte(style))

// policy lets the page load nothing and be framed nowhere.
var policy = "default-src 'none';style-src 'sha256-" + base64.StdEncoding.EncodeToString(styleHash[:]) +
	"';base-uri 'none';form-action 'none';frame-ancestors 'none'"

// languageOf returns the first language of a header Accept-Language, if there are sentences in it.
func languageOf(header string) string {
	first, _, _ := strings.Cut(header, ",")
	first, _, _ = strings.Cut(first, ";")
	first, _, _ = strings.Cut(strings.TrimSpace(first), "-")
	if first = strings.ToLower(first); sentences[first][0] != "" {
		return first
	}
	return "en"
}

// writePage answers with a page that leads to a target, by itself if it waits.
func writePage(w http.ResponseWriter, r *http.Request, status int, target string, waits bool) error {
	language := languageOf(r.Header.Get("Accept-Language"))
	sentence, refresh := sentences[language][1], ""
	target = html.EscapeString(target)
	if waits {
		sentence = sentences[language][0]
		refresh = `<meta http-equiv=refresh content="` + strconv.Itoa(int(wait/time.Second)) + `;url=` + target + `">`
	}
	body := "<!doctype html><html lang=" + language + `><meta charset=utf-8><meta name=viewport ` +
		`content="width=device-width,initial-scale=1">` +
		`<meta name=color-scheme content="light dark">` + refresh + "<title>" + sentence + "</title><style>" + style +
		`</style><main><a href="` + target + `">` + sentence + "</a></main>"
	header := w.Header()
	begin(header)
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Content-Security-Policy", policy)
	w.WriteHeader(status)
	_, err := w.Write([]byte(body))
	return err
}

// begin makes a header that of an answer of this package: it is not stored, and says nothing of the page that handlers
// further out expected.
func begin(header http.Header) {
	for _, name := range []string{"Content-Disposition", "Content-Encoding", "Etag", "Last-Modified", "Link", "Refresh"} {
		header.Del(name)
	}
	header.Set("Cache-Control", "no-store")
}
