package accesslog

import "net/http"

// redacted is what Caddy writes instead of a header that may hold a secret.
const redacted = "REDACTED"

// maxHeaderRoom is the largest number of header fields in a map that is used again. Clearing a larger one
// would slow every later entry.
const maxHeaderRoom = 256

// headers builds the header of the entry that Next returns. It reuses its memory, because most entries of a log
// have the same few fields.
type headers struct {
	header http.Header
	values []string
}

// fill sets the header of an entry.
func (h *headers) fill(e *Entry) {
	if e.headers == "" && e.referer == "" && e.agent == "" {
		return
	}
	if h.header == nil || len(h.header) > maxHeaderRoom {
		h.header = http.Header{}
	}
	clear(h.header)
	h.values = h.values[:0]
	if e.referer != "" {
		h.add("Referer", e.referer)
	}
	if e.agent != "" {
		h.add("User-Agent", e.agent)
	}
	m := members{text: e.headers}
	for e.headers != "" && m.next() {
		h.addJSON(m.key, m.value)
	}
	if len(h.header) > 0 {
		e.Header = h.header
	}
}

func (h *headers) add(name, value string) {
	h.values = append(h.values, value)
	last := len(h.values)
	h.header[name] = h.values[last-1 : last : last]
}

// addJSON adds a field whose value is an array of strings, or a string.
func (h *headers) addJSON(name, value string) {
	from := len(h.values)
	if value[0] == '"' {
		h.values = append(h.values, unquote(value))
	} else if value[0] == '[' {
		m := members{text: value, at: 1}
		for m.skipSpace() == '"' {
			begin := m.at
			if !m.skipString() {
				break
			}
			h.values = append(h.values, unquote(value[begin:m.at]))
			if m.skipSpace() == ',' {
				m.at++
			}
		}
	}
	if last := len(h.values); last > from {
		h.header[http.CanonicalHeaderKey(name)] = h.values[from:last:last]
	}
}

// ResponseHeader returns the response's header fields in the log. Caddy's JSON has them, with REDACTED for
// values such as those of Set-Cookie. Without Options.Responses, and in other formats, the header is empty. It
// is never nil.
func (e *Entry) ResponseHeader() http.Header {
	h := headers{header: http.Header{}}
	m := members{text: e.response}
	for e.response != "" && m.next() {
		h.addJSON(m.key, m.value)
	}
	return h.header
}
