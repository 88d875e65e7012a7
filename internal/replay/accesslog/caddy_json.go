package accesslog

import (
	"slices"
	"strings"
	"time"
)

// caddyJSON is Caddy's JSON access log.
var caddyJSON = format{name: "caddy", newReader: newCaddyReader}

// caddyJSONName is what reports call it.
const caddyJSONName = "Caddy JSON"

// Faults of lines of JSON.
var (
	brokenJSON   = malformed("broken JSON")
	notJSON      = malformed("no JSON")
	caddyMessage = otherLine("a message of Caddy")
)

// caddyReader reads the lines of one file of Caddy's JSON.
type caddyReader struct {
	times        jsonTimes
	timeKey      string // the key of the time in the last line
	levelKey     string // that of the level
	units        []time.Duration
	durationUnit time.Duration
	responses    bool // keep the header of responses
}

func newCaddyReader(h hints) lineReader {
	r := &caddyReader{times: newJSONTimes(h.timeLayouts), timeKey: "ts", levelKey: "level", durationUnit: time.Second, responses: h.responses}
	for _, format := range h.durationFormats {
		if unit := durationUnit(format); unit != 0 {
			r.units = append(r.units, unit)
		}
	}
	if len(r.units) == 1 {
		r.durationUnit = r.units[0]
	}
	return r
}

func (r *caddyReader) recognizes(line string) bool {
	var e Entry
	_, why := r.read(line, &e)
	return !why.isForeign()
}

// learn implements [learner]: where logs of a configuration have durations in different units, whole numbers alone are none
// of seconds.
func (r *caddyReader) learn(lines []string) {
	if len(r.units) < 2 {
		return
	}
	whole := true
	for _, line := range lines {
		m := members{text: line}
		for whole && m.next() {
			whole = m.key != "duration" || !strings.ContainsAny(m.value, ".e")
		}
	}
	isSecond := func(unit time.Duration) bool { return unit == time.Second }
	if at := slices.IndexFunc(r.units, isSecond); at >= 0 && !whole {
		r.durationUnit = time.Second
		return
	}
	if rest := slices.DeleteFunc(slices.Clone(r.units), isSecond); len(rest) > 0 {
		r.durationUnit = rest[0]
	}
}

// caddyMembers holds members of a line besides the entry, as they are written.
type caddyMembers struct {
	time     string
	duration string
	level    bool // it has the level of a message
	keys     bool // it has a member at all
	request  bool // the line holds a request
	served   bool // and its answer, as only access logs do
	whole    bool // the line has what Caddy always writes, and others who write JSON for replays do not
}

// read reads a line. Keys that Caddy's encoder can rename (time, level, message, logger) may have any name.
func (r *caddyReader) read(text string, e *Entry) (name string, why fault) {
	if text[0] != '{' {
		return caddyJSONName, notJSON
	}
	var found caddyMembers
	m := members{text: text}
	for m.next() {
		r.member(m.key, m.value, e, &found)
		found.keys = true
	}
	if m.broken || m.skipSpace() != 0 {
		return caddyJSONName, brokenJSON
	}
	if !found.request || !found.served {
		return caddyJSONName, r.message(&found)
	}
	if e.Client == "" {
		e.Client, e.peer = e.Remote, true
	}
	e.allHeaders = found.whole && e.headers != ""
	if !r.times.read(found.time, e) && !r.findTime(text, e) {
		return caddyJSONName, noTime
	}
	e.setTime(e.Time, endMoment, r.times.coarse) // a request is logged at its end
	if took, known := readDuration(found.duration, r.durationUnit); known {
		e.setDuration(took)
	}
	return caddyJSONName, noFault
}

// message tells a message of Caddy from the JSON of another program: it has a level and a time.
func (r *caddyReader) message(found *caddyMembers) fault {
	var e Entry
	if !found.keys || found.level && r.times.read(found.time, &e) {
		return caddyMessage
	}
	return foreignJSON
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
		found.served, found.whole = true, true
	case "resp_headers":
		found.served, found.whole = true, true
		if r.responses {
			e.response = value
		}
	case "duration":
		found.duration = value
	case r.timeKey:
		found.time = value
	case r.levelKey:
		found.level = isLevel(value)
	default:
		if !found.level && isLevel(value) {
			r.levelKey, found.level = key, true
		}
		found.served = found.served || servedBy(value)
	}
}

// isLevel reports whether a value is a level of Caddy's messages.
func isLevel(value string) bool {
	if len(value) > len(`"debug"`) {
		return false
	}
	switch strings.ToLower(value) {
	case `"debug"`, `"info"`, `"warn"`, `"error"`, `"panic"`, `"fatal"`:
		return true
	}
	return false
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
