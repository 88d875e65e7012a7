// Package livepage serves the live page to one browser of this machine. It decides who may read it: the browser that has
// opened its address, which works once, and no other page, port, user or name of the machine.
//
// A browser needs two secrets. A cookie cannot be read by scripts, but is sent to all ports of its host, so that other
// users' servers get it. The part of the address behind # is sent to no server. Scripts of the page send it in a header.
//
// A [Feed] makes the document of the page on the node. A viewer that has asked before gets only the parts that have changed since.
package livepage

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/http"
	"strings"
	"sync/atomic"
)

// askFunc returns the answer of the admin endpoint for what a viewer has: JSON and its status. An error says why there is none.
type askFunc func(ctx context.Context, since string) (status int, answer []byte, err error)

// Server serves the page. [New] makes it.
type Server struct {
	host     string // the one that it answers to
	document document
	ask      askFunc

	link, cookie, key string // secrets of 128 random bits
	opened            atomic.Bool
}

// New returns a server for a host, such as 127.0.0.1:9000. The command and the flags, each behind a space, stand in
// commands that the page shows.
func New(host, command, flags string, ask askFunc) *Server {
	return &Server{host: host, document: newDocument(command, flags), ask: ask, link: secret(), cookie: secret(), key: secret()}
}

// secret returns 128 random bits as 32 digits.
func secret() string {
	var bits [16]byte
	_, _ = rand.Read(bits[:]) // which never fails
	return hex.EncodeToString(bits[:])
}

// Address returns the address that opens the page, once.
func (s *Server) Address() string { return "http://" + s.host + openPath + s.link }

const (
	openPath = "/open/"
	dataPath = "/data"

	// keyHeader has the secret that the page's address has behind #.
	keyHeader = "Page-Key"

	// mostSince is the longest text that says what a viewer has, in bytes.
	mostSince = 100
)

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range map[string]string{
		"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		"X-Frame-Options": "DENY", "Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
		"Content-Security-Policy": s.document.policy,
	} {
		w.Header().Set(name, value)
	}
	switch {
	case r.Host != s.host && r.Host+":80" != s.host: // browsers leave out the port 80
		refuse(w, http.StatusMisdirectedRequest, "This server answers to another name. Open the address that the command has printed.")
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		refuse(w, http.StatusMethodNotAllowed, "The page can be read, and nothing else.")
	case strings.HasPrefix(r.URL.Path, openPath):
		s.open(w, strings.TrimPrefix(r.URL.Path, openPath))
	case r.URL.Path == dataPath:
		s.serveData(w, r)
	case r.URL.Path != "/":
		refuse(w, http.StatusNotFound, "There is no such page.")
	case !s.hasCookie(r):
		refuse(w, http.StatusForbidden, "Open the address that the command has printed. It works once: start the command again for another one.")
	default:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(s.document.text)) // the browser may have left
	}
}

// open exchanges the printed address for a cookie. A page leads on to the real one, and not a redirection: after a click
// on the address in a page of another site, a browser would not send the cookie along.
func (s *Server) open(w http.ResponseWriter, link string) {
	if !same(link, s.link) || s.opened.Swap(true) {
		refuse(w, http.StatusForbidden, "This address is wrong, or was opened before. It works once: start the command again for another one.")
		return
	}
	http.SetCookie(w, &http.Cookie{Name: s.cookieName(), Value: s.cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	page := html.EscapeString("/#" + s.key)
	_, _ = w.Write([]byte(`<!DOCTYPE html><html lang="en"><title>Rate limits</title><meta http-equiv="refresh" content="0;url=` + page +
		`"><p><a href="` + page + `">Rate limits</a></p>`)) // the browser may have left
}

// cookieName is another one for each port, since browsers keep one cookie for all of them.
func (s *Server) cookieName() string {
	return "redis_ratelimit_page_" + s.host[strings.LastIndexByte(s.host, ':')+1:]
}

// hasCookie reports whether a request comes from the browser that has opened the address.
func (s *Server) hasCookie(r *http.Request) bool {
	c, err := r.Cookie(s.cookieName())
	return err == nil && same(c.Value, s.cookie)
}

// same compares with a secret, in a time that tells nothing of it.
func same(given, secret string) bool {
	return subtle.ConstantTimeCompare([]byte(given), []byte(secret)) == 1
}

// serveData answers the page's script with the answer of the admin endpoint. Browsers that say where a request comes from
// have to say that it is this page.
func (s *Server) serveData(w http.ResponseWriter, r *http.Request) {
	site, since := r.Header.Get("Sec-Fetch-Site"), r.URL.Query().Get("since")
	w.Header().Set("Content-Type", "application/json")
	if !s.hasCookie(r) || !same(r.Header.Get(keyHeader), s.key) || site != "" && site != "same-origin" {
		fail(w, http.StatusForbidden, "this browser has not opened the address that the command has printed, or the command was started again")
		return
	}
	if len(since) > mostSince {
		fail(w, http.StatusBadRequest, "since: use the member next of the last answer")
		return
	}
	status, answer, err := s.ask(r.Context(), since)
	if err != nil {
		fail(w, http.StatusBadGateway, err.Error())
		return
	}
	w.WriteHeader(status)
	_, _ = w.Write(answer) // the browser may have left
}

// fail answers a script with an error.
func fail(w http.ResponseWriter, status int, text string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": text}) // the browser may have left
}

// refuse answers a person with a line of text.
func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // the client may have left
}
