package accesslog

import "strings"

// line holds members of a line of JSON besides the entry, as they are written.
type line struct {
	time     string
	duration string
	request  bool // the line holds a request
	served   bool // and its answer, as only access logs do
}

// json reads a line of Caddy's JSON access log. Keys that Caddy's encoder can rename (time, level, message,
// logger) may have any name.
func (p *parser) json(text string, e *Entry) (Format, string) {
	var found line
	m := members{text: text}
	for m.next() {
		p.member(m.key, m.value, e, &found)
	}
	if m.broken || m.skipSpace() != 0 {
		return CaddyJSON, "broken JSON"
	}
	if !found.request || !found.served {
		return Other, ""
	}
	if e.Client == "" {
		e.Client, e.peer = e.Remote, true
	}
	if !p.time(found.time, e) && !p.findTime(text, e) {
		return CaddyJSON, noTime
	}
	if took, known := p.duration(found.duration); known {
		e.Ends = e.Time // a request is logged at its end
		e.Time -= took
		p.timed = true
	}
	return CaddyJSON, ""
}

// member reads one member of a line.
func (p *parser) member(key, value string, e *Entry, found *line) {
	switch key {
	case "request":
		m := members{text: value}
		for m.next() {
			found.request = e.ofRequest(m.key, m.value) || found.request
		}
	case "status":
		e.Status = int(min(length(value), 999))
	case "size":
		e.Size, found.served = length(value), true
	case "user_id":
		e.User, found.served = unquote(value), true
	case "bytes_read":
		found.served = true
	case "resp_headers":
		found.served = true
		if p.responses {
			e.response = value
		}
	case "duration":
		found.duration = value
	case p.timeKey:
		found.time = value
	default:
		found.served = found.served || servedBy(value)
	}
}

// servedBy reports whether a value is the message or the logger of an access log. Their keys may have any
// name.
func servedBy(value string) bool {
	return value == `"handled request"` || strings.HasPrefix(value, `"http.log.access`)
}

// ofRequest reads a member of the request, and reports whether it proves that there is a request.
func (e *Entry) ofRequest(key, value string) bool {
	switch key {
	case "client_ip":
		e.Client = unquote(value)
	case "remote_ip":
		e.Remote = unquote(value)
	case "proto":
		e.Proto = unquote(value)
	case "method":
		e.Method = unquote(value)
	case "host":
		e.Host = unquote(value)
	case "uri":
		e.URI = unquote(value)
	case "headers":
		e.headers = value
		return false
	case "tls":
		e.TLS = value[0] == '{'
		return false
	default:
		return false
	}
	return true
}
