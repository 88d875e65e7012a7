package accesslog

import (
	"strings"
	"time"
)

// caddyJSON is Caddy's JSON access log.
var caddyJSON = format{called: "Caddy's JSON", newReader: newCaddyReader}

// caddyJSONName is what reports call it.
const caddyJSONName = "Caddy JSON"

// caddyReader reads the lines of one file of Caddy's JSON.
type caddyReader struct {
	times        jsonTimes
	timeKey      string // the key of the time in the last line
	durationUnit time.Duration
	responses    bool // keep the header of responses
}

func newCaddyReader(o *Options) lineReader {
	return &caddyReader{
		times: newJSONTimes(o.TimeLayouts), timeKey: "ts", durationUnit: durationUnit(o.DurationFormat), responses: o.Responses,
	}
}

func (r *caddyReader) recognizes(line string) bool { return line[0] == '{' }

// caddyMembers holds members of a line besides the entry, as they are written.
type caddyMembers struct {
	time     string
	duration string
	request  bool // the line holds a request
	served   bool // and its answer, as only access logs do
}

// read reads a line. Keys that Caddy's encoder can rename (time, level, message, logger) may have any name.
func (r *caddyReader) read(text string, e *Entry) (name, reason string) {
	var found caddyMembers
	m := members{text: text}
	for m.next() {
		r.member(m.key, m.value, e, &found)
	}
	if m.broken || m.skipSpace() != 0 {
		return caddyJSONName, "broken JSON"
	}
	if !found.request || !found.served {
		return "", ""
	}
	if e.Client == "" {
		e.Client, e.peer = e.Remote, true
	}
	if !r.times.read(found.time, e) && !r.findTime(text, e) {
		return caddyJSONName, noTime
	}
	if took, known := readDuration(found.duration, r.durationUnit); known {
		e.Ends = e.Time // a request is logged at its end
		e.Time -= took
	}
	return caddyJSONName, ""
}

// member reads one member of a line.
func (r *caddyReader) member(key, value string, e *Entry, found *caddyMembers) {
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
		if r.responses {
			e.response = value
		}
	case "duration":
		found.duration = value
	case r.timeKey:
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

// notTimes are the keys of an access log that never hold its time.
var notTimes = map[string]bool{
	"level": true, "logger": true, "msg": true, "request": true, "bytes_read": true, "user_id": true,
	"duration": true, "size": true, "status": true, "resp_headers": true,
}

// findTime looks for a time under another key than that of the lines before, and remembers the key.
func (r *caddyReader) findTime(text string, e *Entry) (ok bool) {
	m := members{text: text}
	for m.next() {
		if !notTimes[m.key] && r.times.read(m.value, e) {
			r.timeKey = m.key
			return true
		}
	}
	return false
}
