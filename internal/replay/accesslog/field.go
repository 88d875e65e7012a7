package accesslog

import (
	"strconv"
	"strings"
	"time"
)

// field is a value that a line may have, as formats that name their fields use it.
type field struct {
	role role

	// name is the header's, of a header.
	name string

	// moment, layout and coarse are those of a time. Without a layout the time is a number since the Unix epoch.
	moment moment
	layout string
	coarse bool

	// unit is that of numbers, of a duration.
	unit time.Duration

	// raw is true for a text that a client wrote and that may hold blanks.
	raw bool

	// plain is true if backslashes in it stand for themselves.
	plain bool
}

// role is what a value is.
type role uint8

const (
	skippedRole   role = iota // of no use here
	clientRole                // the client's address
	portRole                  // the client's address, always with a port
	peerRole                  // the address of the connection's peer
	listRole                  // X-Forwarded-For, or the client's address without one
	forwardedRole             // X-Forwarded-For
	userRole
	timeRole
	durationRole
	timersRole // HAProxy's, of which the last is the duration, in milliseconds
	requestRole
	methodRole
	uriRole
	pathRole
	queryRole
	protoRole
	schemeRole
	hostRole
	statusRole
	resultRole // Squid's result, a slash and the status
	sizeRole
	headerRole
)

// values are those of one line that belong together before they become the entry's.
type values struct {
	starts, ends       int64 // microseconds; 0 for none
	coarse             bool
	took               int64 // microseconds
	timed              bool
	path, query        string
	scheme             string
	peer, forwarded    string
	hasPeer, hasClient bool
}

// set sets a value in an entry, or keeps it for finish. It is false for a time, duration or status that is none.
func (f *field) set(text string, e *Entry, v *values, times *jsonTimes) bool {
	switch f.role {
	case timeRole:
		return f.setTime(text, e, v, times)
	case durationRole, timersRole:
		took, known := f.duration(text)
		if known {
			v.took, v.timed = took, true
		}
		return known || text == "" || text[0] == '-' // none, or -1
	case resultRole, statusRole:
		if f.role == resultRole && !strings.Contains(text, "/") {
			return false
		}
		text = text[strings.LastIndexByte(text, '/')+1:]
		e.Status = min(max(0, number(text)), 999)
		return number(text) >= 0 || text == "" || text[0] == '-'
	case clientRole, portRole, listRole:
		v.hasClient = true
		switch f.role {
		case portRole:
			e.Client = withoutPort(text)
		case listRole:
			e.setClient(text)
		default:
			e.Client, _ = address(noneIfDash(text))
		}
	case peerRole:
		v.peer, _ = address(noneIfDash(text))
		v.hasPeer = true
	case forwardedRole:
		v.forwarded = noneIfDash(text)
	case skippedRole:
	default:
		f.setText(noneIfDash(text), e, v)
	}
	return true
}

// setText sets a value that is a text or a number of the request or its answer.
func (f *field) setText(text string, e *Entry, v *values) {
	switch f.role {
	case userRole:
		e.User = text
	case requestRole:
		if strings.TrimSpace(text) != "" && !strings.HasPrefix(text, "- ") {
			e.request(text)
		}
	case methodRole:
		e.Method = text
	case uriRole:
		e.setURI(text)
	case pathRole:
		v.path = text
	case queryRole:
		v.query = strings.TrimPrefix(text, "?")
	case protoRole:
		e.Proto = text
	case schemeRole:
		v.scheme = text
	case hostRole:
		e.Host, e.schemeless = text, true
	case sizeRole:
		e.Size = length(strings.TrimPrefix(text, "+"))
	case headerRole:
		e.setHeader(f.name, text)
	}
}

// setTime keeps a time. One without a fraction is in whole seconds, unless it is a number of smaller units.
func (f *field) setTime(text string, e *Entry, v *values, times *jsonTimes) bool {
	before, coarse := v.starts, f.coarse
	if f.moment == endMoment {
		before = v.ends
	}
	switch micros, isNumber := epoch(text); {
	case f.layout != "":
		read, err := time.ParseInLocation(f.layout, text, time.UTC)
		if err != nil {
			return false
		}
		e.Time, e.zoneless = read.UnixMicro(), !hasZone(f.layout)
	case isNumber:
		const secondDigits = 10
		e.Time, coarse = micros, len(text) <= secondDigits && !strings.Contains(text, ".")
	case times.readText(strings.Trim(text, "[]"), e):
		coarse = !hasFraction(text)
	default:
		return false
	}
	switch {
	case before != 0 && coarse: // the line has it twice
	case f.moment == endMoment:
		v.ends, v.coarse = e.Time, coarse
	default:
		v.starts, v.coarse = e.Time, coarse
	}
	return true
}

// duration returns a duration in microseconds.
func (f *field) duration(text string) (micros int64, known bool) {
	if f.role == timersRole {
		text = strings.TrimPrefix(text[strings.LastIndexByte(text, '/')+1:], "+")
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		if !(n >= 0 && n < 1e15) {
			return 0, false
		}
		took := time.Duration(min(n*float64(f.unit), float64(2*longestRequest)))
		return took.Microseconds(), took <= longestRequest
	}
	took, err := time.ParseDuration(text)
	return took.Microseconds(), err == nil && took >= 0 && took <= longestRequest
}

// finish completes an entry of which all values are set.
func (v *values) finish(e *Entry) fault {
	switch {
	case v.starts != 0 && v.ends >= v.starts:
		e.setTime(v.starts, startMoment, v.coarse)
		e.setDuration(v.ends - v.starts)
		if v.coarse && v.timed {
			e.setDuration(v.took)
		}
	case v.starts != 0:
		e.setTime(v.starts, startMoment, v.coarse)
	case v.ends != 0:
		e.setTime(v.ends, endMoment, v.coarse)
	default:
		return noTime
	}
	if v.timed && (v.starts == 0 || v.ends == 0) {
		e.setDuration(v.took)
	}
	if v.path != "" && e.URI == "" {
		e.URI = v.path
		if v.query != "" {
			e.URI += "?" + v.query
		}
	}
	if v.scheme != "" {
		e.TLS, e.schemeless = v.scheme == "https" || v.scheme == "on" || v.scheme == "wss", false
	}
	v.finishClient(e)
	if e.Method == "" && (e.URI == "" || strings.HasPrefix(e.URI, "error:")) { // Squid's word
		return emptyRequest
	}
	return noFault
}

// finishClient completes the client: without its address the last of X-Forwarded-For counts.
func (v *values) finishClient(e *Entry) {
	if !v.hasClient && v.hasPeer {
		e.Client = v.peer
	}
	if !v.hasClient && !v.hasPeer && v.forwarded != "" {
		e.setClient(v.forwarded)
		e.lastForwarded = true
		return
	}
	if v.forwarded != "" {
		e.setHeader(forwardedFor, v.forwarded)
	}
	if e.Remote = e.Client; v.hasPeer {
		e.Remote = v.peer
	}
}
