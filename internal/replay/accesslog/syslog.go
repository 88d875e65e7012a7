package accesslog

import (
	"strings"
	"time"
)

// openSyslog opens a line of syslog with a time as in RFC 3164 or RFC 3339, as rsyslog, syslog-ng and journalctl write it:
//
//	Nov 27 19:47:57 host nginx[123]: …
//	2026-11-27T19:47:57+00:00 host nginx: …
func openSyslog(line string) (l letter, ok bool) {
	rest := withoutPriority(line)
	if instant, after, found := strings.Cut(rest, " "); found && isInstant(instant) {
		rest = after
	} else if rest, found = cutStamp(rest); !found {
		return l, false
	}
	host, rest, _ := strings.Cut(rest, " ")
	tag, text, found := strings.Cut(rest, ": ")
	if !found && strings.HasSuffix(rest, ":") {
		tag, found = strings.TrimSuffix(rest, ":"), true
	}
	return letter{text: text}, found && host != "" && isTag(tag)
}

// withoutPriority returns a line without <134> before it.
func withoutPriority(line string) string {
	if end := strings.IndexByte(line, '>'); line[0] == '<' && end > 1 && end <= 4 && number(line[1:end]) >= 0 {
		return line[end+1:]
	}
	return line
}

// cutStamp cuts a time such as "Nov  7 19:47:57 " from a line.
func cutStamp(line string) (rest string, ok bool) {
	const stamp = "Jan _2 15:04:05"
	if len(line) <= len(stamp) || line[3] != ' ' || line[9] != ':' || line[len(stamp)] != ' ' {
		return line, false
	}
	_, err := time.Parse(stamp, line[:len(stamp)])
	return line[len(stamp)+1:], err == nil
}

// isTag reports whether a text is the name of a program, or that and a number in brackets.
func isTag(text string) bool {
	name, id, found := strings.Cut(text, "[")
	return isName(name) && len(name) <= 128 && (!found || strings.HasSuffix(id, "]") && isName(id[:len(id)-1]))
}

// openSyslog5424 opens a line as in RFC 5424:
//
//	<165>1 2003-10-11T22:14:15.003Z host app 123 ID47 [data@1 a="b"] …
func openSyslog5424(line string) (l letter, ok bool) {
	rest := withoutPriority(line)
	version, rest, _ := strings.Cut(rest, " ")
	instant, rest, _ := strings.Cut(rest, " ")
	if version != "1" || instant != "-" && !isInstant(instant) {
		return l, false
	}
	for range 4 { // host, program, process, message
		var word string
		if word, rest, ok = strings.Cut(rest, " "); !ok || word == "" {
			return l, false
		}
	}
	if rest, ok = skipData(rest); !ok {
		return l, false
	}
	l.text = strings.TrimPrefix(strings.TrimPrefix(rest, " "), byteOrderMark)
	return l, true
}

// skipData skips structured data, which is a dash or elements in brackets with texts in quotes.
func skipData(text string) (rest string, ok bool) {
	if rest, ok = strings.CutPrefix(text, "-"); ok {
		return rest, rest == "" || rest[0] == ' '
	}
	if text == "" || text[0] != '[' {
		return text, false
	}
	quotes := false
	for at := 0; at < len(text); at++ {
		switch c := text[at]; {
		case quotes && c == '\\':
			at++
		case c == '"':
			quotes = !quotes
		case c == ']' && !quotes && (at+1 == len(text) || text[at+1] == ' '):
			return text[at+1:], true
		}
	}
	return text, false
}
