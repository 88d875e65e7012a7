package accesslog

import (
	"strings"
)

// request splits a request line. The protocol may be missing, and the URI may hold blanks.
func (e *Entry) request(line string) {
	if at := strings.LastIndexByte(line, ' '); at >= 0 && strings.HasPrefix(line[at+1:], "HTTP/") {
		line, e.Proto = strings.TrimRight(line[:at], " "), line[at+1:]
	}
	method, uri, found := strings.Cut(line, " ")
	if !found || !isMethod(method) {
		e.URI = line
		return
	}
	e.Method = method
	e.setURI(strings.TrimSpace(uri))
}

// setURI sets the URI. The host of an absolute URL is the request's, as for a server that gets one.
func (e *Entry) setURI(uri string) {
	e.URI = uri
	if uri == "" || uri[0]|0x20 != 'h' {
		return
	}
	scheme, rest, _ := strings.Cut(uri, "://")
	if scheme = strings.ToLower(scheme); scheme != "http" && scheme != "https" {
		return
	}
	end := strings.IndexAny(rest, "/?#*")
	if end < 0 {
		end = len(rest)
	}
	host := rest[:end]
	e.Host, e.TLS, e.schemeless, e.absolute = host[strings.LastIndexByte(host, '@')+1:], scheme == "https", scheme == "http", true
	if e.URI = rest[end:]; e.URI == "" || e.URI[0] != '/' && e.URI != "*" {
		e.URI = "/" + e.URI
	}
}

// isMethod reports whether a word may be a method: letters, and signs as in VERSION-CONTROL.
func isMethod(word string) bool {
	for i := range len(word) {
		if c := word[i] | 0x20; (c < 'a' || c > 'z') && word[i] != '-' && word[i] != '_' {
			return false
		}
	}
	return word != "" && len(word) <= 32
}
