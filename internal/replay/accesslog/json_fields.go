package accesslog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// fieldsFormat is JSON whose keys are known by --fields, or because the program that writes it is known.
type fieldsFormat struct {
	called string
	fields map[string]field // by key; that of a nested member has the keys of all objects, with dots between
	inside map[string]bool  // the keys of objects with fields
}

// fieldNames are the names of fields, with what they are. Each is named at most once.
var fieldNames = map[string]field{
	"starts": {role: timeRole, moment: startMoment}, "ends": {role: timeRole, moment: endMoment},
	"client": {role: clientRole}, "peer": {role: peerRole}, "forwarded": {role: forwardedRole}, "user": {role: userRole},
	"request": {role: requestRole}, "method": {role: methodRole}, "uri": {role: uriRole}, "path": {role: pathRole}, "query": {role: queryRole},
	"proto": {role: protoRole}, "scheme": {role: schemeRole}, "host": {role: hostRole}, "status": {role: statusRole}, "size": {role: sizeRole},
	"duration": {role: durationRole, unit: time.Second}, "agent": {role: headerRole, name: "User-Agent"}, "referer": {role: headerRole, name: "Referer"},
}

// durationUnits are the units that a duration's key can end with.
var durationUnits = map[string]time.Duration{"s": time.Second, "ms": time.Millisecond, "us": time.Microsecond, "ns": time.Nanosecond}

// parseFields makes a format of pairs such as client=remote_addr, separated by commas. A duration has its unit behind a
// colon: duration=took:ms; without it seconds.
func parseFields(called, text string) (*fieldsFormat, error) {
	f := &fieldsFormat{called: called, fields: map[string]field{}, inside: map[string]bool{}}
	named := map[string]bool{}
	for pair := range strings.SplitSeq(text, ",") {
		name, key, found := strings.Cut(strings.TrimSpace(pair), "=")
		made, known := fieldNames[name]
		switch {
		case !found || key == "":
			return nil, fmt.Errorf("%q: write a name and a key, such as client=remote_addr", pair)
		case !known:
			return nil, fmt.Errorf("no field is called %q: write one of %s", name, strings.Join(sortedNames(), ", "))
		case named[name]:
			return nil, fmt.Errorf("%s is named twice", name)
		}
		named[name] = true
		if name == "duration" {
			at := strings.LastIndexByte(key, ':')
			if unit, found := durationUnits[key[at+1:]]; found && at > 0 {
				key, made.unit = key[:at], unit
			} else if at > 0 {
				return nil, fmt.Errorf("duration=%s: its unit is s, ms, us or ns", key)
			}
		}
		if _, twice := f.fields[key]; twice {
			return nil, fmt.Errorf("the key %s is named twice", key)
		}
		f.fields[key] = made
		for at := range len(key) {
			if key[at] == '.' {
				f.inside[key[:at]] = true
			}
		}
	}
	switch {
	case !named["starts"] && !named["ends"]:
		return nil, errNoMoment
	case !named["uri"] && !named["request"] && !named["path"]:
		return nil, errors.New("name the key of the URI as uri, path or request")
	case !named["method"] && !named["request"]:
		return nil, errors.New("name the key of the method as method or request")
	}
	return f, nil
}

func sortedNames() (names []string) {
	for name := range fieldNames {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// jsonFormat makes a format of the fields of a program that is known.
func jsonFormat(name, program, called, text string) format {
	f, err := parseFields(called, text)
	if err != nil {
		panic(called + ": " + err.Error())
	}
	return format{name: name, program: program, newReader: f.newReader}
}

func (f *fieldsFormat) newReader(h hints) lineReader {
	return &fieldsReader{fieldsFormat: f, times: newJSONTimes(h.timeLayouts), found: map[string]bool{}}
}

// noRequestKeys is the fault of an object with a key of the fields, but none of its request: a message, or keys that were named
// wrongly.
var noRequestKeys = otherLine("JSON without the keys of method and URI")

// twiceKey is the fault of an object of a program that does not escape what clients write.
var twiceKey = malformed("a key twice in one object, which a client may have written")

// fieldsReader reads the lines of one file.
type fieldsReader struct {
	*fieldsFormat

	times jsonTimes
	path  []byte          // the keys of the objects around a member
	found map[string]bool // keys of the line that have fields
	twice bool            // one of them came twice

	method, uri bool // the line has a key of it
}

func (r *fieldsReader) recognizes(line string) bool {
	var e Entry
	if _, why := r.read(line, &e); why != noFault && why != emptyRequest {
		return false
	}
	return len(r.found) == len(r.fields)
}

func (r *fieldsReader) read(line string, e *Entry) (name string, why fault) {
	if line[0] != '{' {
		return r.called, notJSON
	}
	var v values
	r.path, r.twice, r.method, r.uri = r.path[:0], false, false, false
	clear(r.found)
	switch broken := r.object(line, e, &v); {
	case broken:
		return r.called, brokenJSON
	case r.twice:
		return r.called, twiceKey
	case len(r.found) == 0:
		return r.called, foreignJSON
	case !r.method || !r.uri:
		return r.called, noRequestKeys
	}
	return r.called, v.finish(e)
}

// object reads the members of an object, and of those inside it that have fields.
func (r *fieldsReader) object(text string, e *Entry, v *values) (broken bool) {
	depth := len(r.path)
	m := members{text: text}
	for m.next() {
		r.path = append(r.path[:depth], m.key...)
		if f, known := r.fields[string(r.path)]; known {
			r.twice = r.twice || r.found[string(r.path)]
			r.found[string(r.path)] = true
			r.method = r.method || f.role == methodRole || f.role == requestRole
			r.uri = r.uri || f.role == uriRole || f.role == pathRole || f.role == requestRole
			f.set(valueText(m.value), e, v, &r.times) // a time that cannot be read is none, which finish reports
		}
		if m.value[0] == '{' && r.inside[string(r.path)] {
			r.path = append(r.path, '.')
			if r.object(m.value, e, v) {
				return true
			}
		}
	}
	r.path = r.path[:depth]
	return m.broken || depth == 0 && m.skipSpace() != 0
}

// valueText returns the text of a value: a string without its quotes, or anything else as it is written; null is none.
func valueText(value string) string {
	switch value[0] {
	case '"':
		return unquote(value)
	case 'n':
		return ""
	}
	return value
}
