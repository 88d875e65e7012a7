package accesslog

import "net/http"

// forwardedFor is the name of the field with the addresses that proxies have passed on.
const forwardedFor = "X-Forwarded-For"

// headerField is a field of the header that a line has a place for. Few lines have others than Referer and User-Agent.
type headerField struct {
	name   string // canonical
	value  string // empty for one that the request did not have
	before *headerField
}

// setHeader sets a field of the header.
func (e *Entry) setHeader(name, text string) {
	switch name = http.CanonicalHeaderKey(name); name {
	case "Referer":
		e.referer, e.tellsReferer = text, true
	case "User-Agent":
		e.agent, e.tellsAgent = text, true
	default:
		e.more = &headerField{name, text, e.more}
	}
}

// Redacted is what Caddy writes instead of a header that may hold a secret.
const Redacted = "REDACTED"

// fillHeader sets the header of an entry; it stays nil without a field.
func (e *Entry) fillHeader() {
	header := headerOf(e.headers)
	if e.referer != "" {
		header["Referer"] = []string{e.referer}
	}
	if e.agent != "" {
		header["User-Agent"] = []string{e.agent}
	}
	for f := e.more; f != nil; f = f.before {
		if _, later := header[f.name]; !later && f.value != "" {
			header[f.name] = []string{f.value}
		}
	}
	if len(header) > 0 {
		e.Header = header
	}
}

// TellsHeader reports whether the log would show a field of the request's header, by its canonical name, if the request had it.
func (e *Entry) TellsHeader(name string) bool {
	switch {
	case e.allHeaders || len(e.Header[name]) > 0:
		return true
	case name == "Referer":
		return e.tellsReferer
	case name == "User-Agent":
		return e.tellsAgent
	}
	for f := e.more; f != nil; f = f.before {
		if f.name == name {
			return true
		}
	}
	return false
}

// ResponseHeader returns the response's header fields in the log. Caddy's JSON has them, with REDACTED for
// values such as those of Set-Cookie. Without ReaderOptions.Responses, and in other formats, the header is empty. It
// is never nil.
func (e *Entry) ResponseHeader() http.Header { return headerOf(e.response) }

// headerOf reads a JSON object whose members are arrays of strings, or strings.
func headerOf(text string) http.Header {
	header := http.Header{}
	m := members{text: text}
	for text != "" && m.next() {
		if values := stringsOf(m.value); len(values) > 0 {
			header[http.CanonicalHeaderKey(m.key)] = values
		}
	}
	return header
}

// stringsOf returns the strings that begin an array, or a string alone.
func stringsOf(value string) (values []string) {
	if value[0] == '"' {
		return []string{unquote(value)}
	}
	m := members{text: value, at: 1}
	for value[0] == '[' && m.skipSpace() == '"' {
		begin := m.at
		if !m.skipString() {
			break
		}
		values = append(values, unquote(value[begin:m.at]))
		m.skip(',')
	}
	return values
}
