package accesslog

import (
	"slices"
	"strings"
	"time"
)

// commonLogFormat is Common Log Format, and Combined Log Format, which is that with Referer and User-Agent.
var commonLogFormat = format{
	newReader: func(hints) lineReader { return &commonReader{layout: commonHead} },
}

// What reports call the two.
const (
	commonName   = "Common Log Format"
	combinedName = "Combined Log Format"
)

// Faults of lines in Common Log Format.
var (
	inQuotes       = malformed("in quotes")
	noBracketTime  = malformed("no format that is known: no time in brackets")
	badBracketTime = malformed("no time in the brackets")
	noRequest      = malformed("no request in quotes")
	noStatus       = malformed("no status after the request")
	otherHead      = malformed("other words before the time than in the first lines of the file")
)

// commonReader reads the lines of one file.
type commonReader struct {
	layout   headLayout
	plain    bool   // backslashes in requests stand for themselves
	trailing bool   // the text in quotes behind User-Agent is X-Forwarded-For
	lastText string // the last time, and its microseconds
	lastTime int64
}

func (r *commonReader) recognizes(line string) bool {
	_, _, why := r.time(line)
	return why == noFault
}

// learn implements [learner].
func (r *commonReader) learn(lines []string) {
	var heads [][]string
	var trails []string
	for _, line := range lines {
		open, rest, why := r.time(line)
		if why != noFault {
			continue
		}
		heads = append(heads, headWords(line[:open]))
		var e Entry
		if _, tail, why := e.answered(rest, r.plain); why == noFault {
			trail, _ := quoted(strings.TrimPrefix(tail, " "))
			trails = append(trails, trail)
		}
	}
	r.layout = learnHead(heads)
	isNone := func(text string) bool { return text == "-" }
	r.trailing = !slices.ContainsFunc(trails, func(text string) bool { return !isNone(text) && !isForwarded(text) }) &&
		slices.ContainsFunc(trails, func(text string) bool { return !isNone(text) })
}

// clientPlace implements [placer].
func (r *commonReader) clientPlace() string { return r.layout.place() }

// read reads a line:
//
//	client identity user [02/Jan/2006:15:04:05 -0700] "GET /path HTTP/1.1" 200 1234 "referer" "agent"
//
// The last two and all that follows them may be missing.
func (r *commonReader) read(text string, e *Entry) (name string, why fault) {
	name, tail, why := r.readAll(text, e)
	if why == noFault {
		r.readTrailing(tail, e)
	}
	return name, why
}

// readTrailing reads an X-Forwarded-For behind User-Agent.
func (r *commonReader) readTrailing(tail string, e *Entry) {
	if r.trailing {
		trail, _ := quoted(strings.TrimPrefix(tail, " "))
		e.setHeader(forwardedFor, noneIfDash(trail))
	}
}

// readAll reads a line, and returns what follows the size, or Referer and User-Agent.
func (r *commonReader) readAll(text string, e *Entry) (name, tail string, why fault) {
	open, rest, why := r.time(text)
	if why != noFault {
		return commonName, "", why
	}
	if !r.layout.read(text[:open], e) {
		return commonName, "", otherHead
	}
	e.setTime(r.lastTime, unknownMoment, true)
	return e.answered(rest, r.plain)
}

// time finds the time, which stands before the request: a user may hold a bracket, but no colon. It returns the place of
// the bracket and what begins with the request.
func (r *commonReader) time(text string) (open int, rest string, why fault) {
	if text[0] == '"' {
		return 0, "", inQuotes
	}
	why = noBracketTime
	for from := 0; ; from = open + 1 {
		next := strings.IndexByte(text[from:], '[')
		if next < 0 {
			return 0, "", why
		}
		open = from + next
		end := open + len(commonLog) + 1
		if open == 0 || end >= len(text) || text[end] != ']' {
			continue
		}
		if !r.readTime(text[open+1 : end]) {
			why = badBracketTime
			continue
		}
		if rest = strings.TrimLeft(text[end+1:], " "); rest != "" && rest[0] == '"' {
			return open, rest, noFault
		}
		why = noRequest
	}
}

// answered reads a request in quotes, and what was answered.
func (e *Entry) answered(text string, plain bool) (name, tail string, why fault) {
	end := requestEnd(text)
	if end < 0 {
		return commonName, "", noStatus
	}
	request := text[1:end]
	name, tail = e.outcome(text[end+2:])
	if request == "" || request == "-" || strings.HasPrefix(request, "- ") {
		return name, tail, emptyRequest
	}
	if !plain {
		request = unescape(request)
	}
	e.request(request)
	return name, tail, noFault
}

// readTime reads the text between the brackets. Lines of the same second follow each other.
func (r *commonReader) readTime(text string) (ok bool) {
	if text != r.lastText {
		t, err := time.Parse(commonLog, text)
		if err != nil {
			return false
		}
		r.lastText, r.lastTime = text, t.UnixMicro()
	}
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

// statusFollows reports whether a text begins with a blank, a status and the end of a word. Of a request that was not
// answered the status is a dash, 0 or -1.
func statusFollows(text string) bool {
	if len(text) < 2 || text[0] != ' ' {
		return false
	}
	for _, none := range [...]string{"-", "0", "-1"} {
		if rest, found := strings.CutPrefix(text[1:], none); found && (rest == "" || rest[0] == ' ') {
			return rest != "" || none == "-"
		}
	}
	if len(text) < 4 || number(text[1:4]) < 0 {
		return false
	}
	return len(text) == 4 || text[4] == ' '
}

// outcome reads the fields after the request, and returns the name of the format that has them, and what follows.
func (e *Entry) outcome(text string) (name, tail string) {
	status, text, _ := strings.Cut(text, " ")
	size, text, _ := strings.Cut(text, " ")
	e.Status = max(0, number(status)) // a dash is 0
	e.Size = length(size)
	if text == "" || text[0] != '"' {
		return commonName, text
	}
	referer, text := quoted(text)
	agent, text := quoted(strings.TrimPrefix(text, " "))
	e.referer, e.agent = noneIfDash(referer), noneIfDash(agent)
	e.tellsReferer, e.tellsAgent = true, true
	return combinedName, text
}
