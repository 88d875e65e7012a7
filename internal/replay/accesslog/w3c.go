package accesslog

import (
	"strings"
	"time"
)

// w3cLog is the extended log format of the W3C, as IIS, CloudFront and Tomcat write it. Lines that begin with # name the
// fields. By the W3C the time is the end, but Tomcat's is the start.
var w3cLog = format{name: "w3c", program: "W3C (IIS, Tomcat, CloudFront)", newReader: func(h hints) lineReader {
	return &w3cReader{times: newJSONTimes(h.timeLayouts)}
}}

// w3cName is what reports call it.
const w3cName = "W3C"

// w3cFields are the fields that matter.
var w3cFields = map[string]field{
	"c-ip": {role: clientRole}, "x-forwarded-for": {role: forwardedRole}, "cs(X-Forwarded-For)": {role: forwardedRole},
	"cs-username": {role: userRole}, "cs-method": {role: methodRole}, "cs-uri": {role: uriRole}, "cs-uri-stem": {role: pathRole},
	"cs-uri-query": {role: queryRole}, "cs-host": {role: hostRole}, "cs(Host)": {role: hostRole}, "x-host-header": {role: hostRole},
	"sc-status": {role: statusRole}, "sc-bytes": {role: sizeRole}, "bytes": {role: sizeRole}, "cs-version": {role: protoRole},
	"cs-protocol-version": {role: protoRole}, "cs-protocol": {role: schemeRole}, "cs(User-Agent)": {role: headerRole, name: "User-Agent"},
	"cs(Referer)": {role: headerRole, name: "Referer"}, "time-taken": {role: durationRole, unit: time.Second},
}

// w3cReader reads the lines of one file.
type w3cReader struct {
	times  jsonTimes
	fields []field  // of the columns
	names  []string // of the columns
	moment moment
	unit   time.Duration // of time-taken
}

func (r *w3cReader) recognizes(line string) bool {
	if line[0] == '#' {
		return r.direct(line)
	}
	var e Entry
	_, why := r.read(line, &e)
	return why == noFault
}

// learn implements [learner]: a file without its first lines has no names.
func (r *w3cReader) learn(lines []string) {
	for _, line := range lines {
		if line[0] == '#' {
			r.direct(line)
		}
	}
}

// direct reads a line that begins with #.
func (r *w3cReader) direct(line string) bool {
	name, value, _ := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	switch name {
	case "#Software":
		if strings.Contains(value, "Tomcat") {
			r.moment = startMoment
		}
		if strings.Contains(value, "Internet Information Services") {
			r.unit = time.Millisecond
		}
	case "#Fields":
		if !strings.Contains(value, "time") {
			return false
		}
		r.names = strings.Fields(strings.Clone(value))
		r.fields = make([]field, len(r.names))
		for i, column := range r.names {
			r.fields[i] = w3cFields[column]
		}
	case "#Version", "#Date", "#Start-Date", "#End-Date", "#Remark":
	default:
		return false
	}
	return true
}

var (
	noColumns    = malformed("as many columns as in #Fields are not in the line")
	otherColumns = malformed("no line of W3C's extended log format")
)

// read reads a line. Its columns are between tabs or blanks.
func (r *w3cReader) read(line string, e *Entry) (name string, why fault) {
	if line[0] == '#' {
		if r.direct(line) {
			return w3cName, directive
		}
		return w3cName, otherColumns
	}
	columns := strings.SplitN(line, "\t", len(r.fields)+1)
	if len(columns) == 1 {
		columns = strings.Fields(line)
	}
	if len(r.fields) == 0 || len(columns) != len(r.fields) {
		return w3cName, noColumns
	}
	var v values
	var date, clock string
	for i, text := range columns {
		f := r.fields[i]
		switch {
		case r.names[i] == "date":
			date = text
		case r.names[i] == "time":
			clock = text
		case f.role == durationRole && r.unit != 0:
			f.unit = r.unit
			fallthrough
		default:
			if strings.Contains(text, "+") && f.role == headerRole {
				text = strings.ReplaceAll(text, "+", " ")
			}
			f.set(text, e, &v, &r.times)
		}
	}
	at := field{role: timeRole, moment: endMoment, layout: "2006-01-02 15:04:05", coarse: !hasFraction(clock)}
	if r.moment == startMoment {
		at.moment = startMoment
	}
	if !at.set(date+" "+clock, e, &v, &r.times) {
		return w3cName, noTime
	}
	e.zoneless = false // by the W3C it is UTC
	return w3cName, v.finish(e)
}
