package accesslog

import (
	"strconv"
	"strings"
	"time"
)

// commonLogFormat is Common Log Format, and Combined Log Format, which is that with Referer and User-Agent.
var commonLogFormat = format{
	called:    "Common or Combined Log Format",
	newReader: func(*Options) lineReader { return new(commonReader) },
}

// What reports call the two.
const (
	commonName   = "Common Log Format"
	combinedName = "Combined Log Format"
)

// commonReader reads the lines of one file.
type commonReader struct {
	lastText string // the last time, and its microseconds
	lastTime int64
}

// recognizes recognizes any text but JSON, for which read then says what is wrong.
func (r *commonReader) recognizes(line string) bool { return line[0] != '{' }

// read reads a line:
//
//	client identity user [02/Jan/2006:15:04:05 -0700] "GET /path HTTP/1.1" 200 1234 "referer" "agent"
//
// The last two and all that follows them may be missing.
func (r *commonReader) read(text string, e *Entry) (name, reason string) {
	if text[0] == '"' {
		return commonName, "in quotes"
	}
	client, rest, found := strings.Cut(text, " ")
	open := strings.IndexByte(rest, '[')
	if !found || open < 0 || len(rest) < open+len(commonLog)+2 || rest[open+1+len(commonLog)] != ']' {
		return commonName, "neither JSON nor Common Log Format: no time in brackets"
	}
	if !r.time(rest[open+1:open+1+len(commonLog)], e) {
		return commonName, "no time in the brackets"
	}
	e.Client = noneIfDash(client)
	e.Remote = e.Client
	_, user, _ := strings.Cut(rest[:open], " ")
	e.User = noneIfDash(strings.TrimSpace(user))

	rest = strings.TrimLeft(rest[open+len(commonLog)+2:], " ")
	if rest == "" || rest[0] != '"' {
		return commonName, "no request in quotes"
	}
	end := requestEnd(rest)
	if end < 0 {
		return commonName, "no status after the request"
	}
	request := rest[1:end]
	name = e.outcome(rest[end+2:])
	if request == "" || request == "-" {
		return "", "" // the connection ended without a request
	}
	e.request(unescape(request))
	return name, ""
}

// commonLog is the layout of a time in Common Log Format.
const commonLog = "02/Jan/2006:15:04:05 -0700"

// time reads the text between the brackets. Lines of the same second follow each other.
func (r *commonReader) time(text string, e *Entry) (ok bool) {
	if text != r.lastText {
		t, err := time.Parse(commonLog, text)
		if err != nil {
			return false
		}
		r.lastText, r.lastTime = text, t.UnixMicro()
	}
	e.Time = r.lastTime
	return true
}

// requestEnd returns the place of the quote that ends the request: a status follows it, because a URI may hold
// quotes too. A quote behind a backslash counts only without a better one.
func requestEnd(text string) int {
	escaped := -1
	for at := 1; at < len(text); at++ {
		next := strings.IndexByte(text[at:], '"')
		if next < 0 {
			break
		}
		at += next
		switch {
		case !statusFollows(text[at+1:]):
		case text[at-1] != '\\' || strings.HasSuffix(text[:at], `\\`):
			return at
		case escaped < 0:
			escaped = at
		}
	}
	return escaped
}

// statusFollows reports whether a text begins with a blank, a status and the end of a word.
func statusFollows(text string) bool {
	if strings.HasPrefix(text, " - ") || text == " -" {
		return true
	}
	if len(text) < 4 || text[0] != ' ' || number(text[1:4]) < 0 {
		return false
	}
	return len(text) == 4 || text[4] == ' '
}

// outcome reads the fields after the request, and returns the name of the format that has them.
func (e *Entry) outcome(text string) (name string) {
	status, text, _ := strings.Cut(text, " ")
	size, text, _ := strings.Cut(text, " ")
	e.Status = max(0, number(status)) // a dash is 0
	e.Size = length(size)
	if text == "" || text[0] != '"' {
		return commonName
	}
	referer, text := quoted(text)
	agent, _ := quoted(strings.TrimPrefix(text, " "))
	e.referer, e.agent = noneIfDash(referer), noneIfDash(agent)
	return combinedName
}

// number reads three digits of a status, or -1.
func number(digits string) int {
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil {
		return -1
	}
	return int(n)
}

// length reads a count of bytes. A dash and anything but a number is 0.
func length(text string) int64 {
	n, _ := strconv.ParseUint(text, 10, 63) // too large a number is the largest
	return int64(n)
}

// request splits a request line. The protocol may be missing, and the URI may hold blanks.
func (e *Entry) request(line string) {
	if at := strings.LastIndexByte(line, ' '); at >= 0 && strings.HasPrefix(line[at+1:], "HTTP/") {
		line, e.Proto = strings.TrimRight(line[:at], " "), line[at+1:]
	}
	method, uri, found := strings.Cut(line, " ")
	if !found || !isMethod(method) {
		e.URI = line
		return
	}
	e.Method, e.URI = method, strings.TrimSpace(uri)
}

// isMethod reports whether a word may be a method: letters, and signs as in VERSION-CONTROL.
func isMethod(word string) bool {
	for i := range len(word) {
		if c := word[i] | 0x20; (c < 'a' || c > 'z') && word[i] != '-' && word[i] != '_' {
			return false
		}
	}
	return word != "" && len(word) <= 32
}

// noneIfDash returns a field, in which a dash is empty.
func noneIfDash(field string) string {
	if field == "-" {
		return ""
	}
	return field
}
