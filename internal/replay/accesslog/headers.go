package accesslog

import "net/http"

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
	for i := 0; i+1 < len(e.more); i += 2 {
		if e.more[i+1] != "" {
			header[e.more[i]] = []string{e.more[i+1]}
		}
	}
	if e.forwarded != "" {
		header["X-Forwarded-For"] = []string{e.forwarded}
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
	for i := 0; i+1 < len(e.more); i += 2 {
		if e.more[i] == name {
			return true
		}
	}
	return false
}

// ResponseHeader returns the response's header fields in the log. Caddy's JSON has them, with REDACTED for
// values such as those of Set-Cookie. Without Options.Responses, and in other formats, the header is empty. It
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
