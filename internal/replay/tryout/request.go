package tryout

import (
	"bufio"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// request is a made request.
type request struct {
	method string
	tls    bool
	host   string // with the port, if that is not the one of the scheme
	target string // path and query, as they are sent
	header http.Header
	body   []byte
	client string // the address of the peer

	pattern string // of the path matcher on the way
	behind  bool   // that matcher is one of the policy
}

// clone returns a copy, whose header may be changed.
func (r *request) clone() *request {
	other := *r
	if other.header = r.header.Clone(); other.header == nil {
		other.header = http.Header{}
	}
	return &other
}

// path returns the path of the target as it is sent.
func (r *request) path() string {
	path, _, _ := strings.Cut(r.target, "?")
	return path
}

// query returns the query of the target as it is sent, with its question mark; empty: the target has none.
func (r *request) query() string { return r.target[len(r.path()):] }

// setQuery sets a parameter.
func (r *request) setQuery(name, value string) {
	values, _ := url.ParseQuery(strings.TrimPrefix(r.query(), "?")) // what is no parameter is dropped
	values.Set(name, value)
	r.target = r.path() + "?" + values.Encode()
}

// hasQuery reports whether the target has a parameter.
func (r *request) hasQuery(name string) bool {
	values, _ := url.ParseQuery(strings.TrimPrefix(r.query(), "?")) // what is no parameter is dropped
	return values.Has(name)
}

// setCookie sets a cookie.
func (r *request) setCookie(name, value string) {
	kept := slices.DeleteFunc(strings.Split(r.header.Get("Cookie"), "; "), func(pair string) bool {
		return pair == "" || strings.HasPrefix(pair, name+"=")
	})
	r.header.Set("Cookie", strings.Join(append(kept, name+"="+value), "; "))
}

// hasCookie reports whether the request has a cookie.
func (r *request) hasCookie(name string) bool {
	_, err := (&http.Request{Header: r.header}).Cookie(name)
	return err == nil
}

// text returns the method, and the URL without its scheme.
func (r *request) text() string { return r.method + " " + r.host + r.target }

// read takes the target, the host and the lines of a header over as a server of HTTP reads them, and reports whether it takes them: the lines
// replace the fields of their names.
func (r *request) read(target, host string, lines []string) (*request, bool) {
	text := r.method + " " + target + " HTTP/1.1\r\nHost: " + host + "\r\n" + strings.Join(append(slices.Clone(lines), "\r\n"), "\r\n")
	parsed, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
	if err != nil || parsed.URL.IsAbs() || !httpguts.ValidHostHeader(parsed.Host) {
		return nil, false
	}
	for name, values := range parsed.Header {
		if !httpguts.ValidHeaderFieldName(name) || slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) }) {
			return nil, false
		}
	}
	other := r.clone()
	other.target, other.host = parsed.RequestURI, parsed.Host
	maps.Copy(other.header, parsed.Header)
	return other, true
}
