package accesslog

import (
	"strconv"
	"strings"
	"time"
)

// envelope is what something that carries lines puts around each: a container, the journal, syslog. A new one is a function,
// and a line in envelopes.
type envelope struct {
	called string

	// open returns what is in the envelope. It is false for a line that is not in one.
	open func(line string) (letter, bool)
}

// letter is what was in an envelope.
type letter struct {
	text   string
	stream string // of which a part may go on, such as stderr
	part   bool   // the line goes on in the next one of the stream
}

// envelopes are all kinds. Of those that open a file's lines the first is the file's.
var envelopes = []envelope{
	{"Docker's json-file", openDocker},
	{"the journal's JSON", openJournal},
	{"Docker Compose", openCompose},
	{"Kubernetes (CRI)", openCRI},
	{"syslog (RFC 5424)", openSyslog5424},
	{"syslog", openSyslog},
	{"docker logs -t", openDockerTime},
	{"Caddy's console format", openConsole}, // whose first column would take in the others
}

// findEnvelope returns the envelope that more than half of the lines are in; nil without one.
func findEnvelope(lines []string) *opener {
	for i := range envelopes {
		opened := 0
		for _, line := range lines {
			if _, ok := envelopes[i].open(line); ok {
				opened++
			}
		}
		if opened*2 > len(lines) {
			return &opener{envelope: &envelopes[i]}
		}
	}
	return nil
}

// opener opens the envelopes of one file, and joins the parts of a line.
type opener struct {
	*envelope

	parts map[string]*strings.Builder // by stream
}

// maxStreams bounds the streams of which parts wait for their ends: containers have two.
const maxStreams = 16

// unwrap returns the text in an envelope; a part of a line waits for the others.
func (o *opener) unwrap(line string) (text string, why fault) {
	l, ok := o.open(line)
	if !ok {
		return "", malformed("no line of " + o.called + ", as most lines of the file are")
	}
	before := o.parts[l.stream]
	if before == nil && !l.part {
		return l.text, noFault
	}
	if before == nil {
		if len(o.parts) >= maxStreams {
			return "", malformed("a part of a line of too many streams")
		}
		if o.parts == nil {
			o.parts = map[string]*strings.Builder{}
		}
		before = new(strings.Builder)
		o.parts[strings.Clone(l.stream)] = before
	}
	if before.Len() <= maxLine {
		before.WriteString(l.text)
	}
	if l.part {
		return "", firstPart
	}
	delete(o.parts, l.stream)
	if before.Len() > maxLine {
		return "", tooLongLine
	}
	return before.String(), noFault
}

// openAll returns the texts of lines that are whole.
func (o *opener) openAll(lines []string) (texts []string) {
	for _, line := range lines {
		if text, why := (&opener{envelope: o.envelope}).unwrap(line); why == noFault {
			texts = append(texts, text)
		}
	}
	return texts
}

// openDocker opens {"log":"…\n","stream":"stdout","time":"…"}. A long line is in several, of which only the last ends with a
// line end.
func openDocker(line string) (l letter, ok bool) {
	if line[0] != '{' || !strings.Contains(line, `"log"`) {
		return l, false
	}
	var log string
	timed := false
	m := members{text: line}
	for m.next() {
		switch m.key {
		case "log":
			log = m.value
		case "stream":
			l.stream = unquote(m.value)
		case "time":
			timed = true
		case "attrs":
		default:
			return l, false
		}
	}
	if log == "" || log[0] != '"' || l.stream == "" || !timed || m.broken {
		return l, false
	}
	text := unquote(log)
	l.text = strings.TrimRight(text, "\r\n")
	l.part = !strings.HasSuffix(text, "\n")
	return l, true
}

// openJournal opens a line of journalctl -o json. A message that is no UTF-8 is an array of bytes.
func openJournal(line string) (l letter, ok bool) {
	if line[0] != '{' || !strings.Contains(line, `"MESSAGE"`) {
		return l, false
	}
	known := false // a field that only the journal writes
	m := members{text: line}
	for m.next() {
		switch m.key {
		case "MESSAGE":
			if l.text = unquote(m.value); m.value[0] == '[' {
				l.text = bytesOf(m.value)
			}
			ok = true
		default:
			known = known || strings.HasPrefix(m.key, "_")
		}
	}
	return l, ok && known && !m.broken
}

// bytesOf returns the text of an array of numbers. Anything else in it ends the text.
func bytesOf(array string) string {
	var b strings.Builder
	for number := range strings.SplitSeq(strings.Trim(array, "[]"), ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(number), 10, 8)
		if err != nil {
			break
		}
		b.WriteByte(byte(n))
	}
	return b.String()
}

// openConsole opens a line of Caddy's console format, which is columns between tabs: time, level, logger, message, and the
// rest as JSON. It returns the line in JSON.
func openConsole(line string) (l letter, ok bool) {
	columns, object, found := strings.Cut(line, "\t{")
	if !found {
		columns, object, found = strings.Cut(line, "#011{")
		columns = rsyslogEscapes.Replace(columns)
	}
	if !found || !strings.HasSuffix(object, "}") {
		return l, false
	}
	names := strings.SplitN(columns, "\t", 7)
	if len(names) < 3 || len(names) > 5 || !isLevel(strconv.Quote(plainLevel(names[1]))) {
		return l, false
	}
	const begin = `{"ts":`
	l.text = begin + strconv.Quote(names[0]) + `,"level":"info","logger":` + strconv.Quote(names[2]) + `,` + object
	if object == "}" {
		l.text = strings.TrimSuffix(l.text, ",}") + "}"
	}
	return l, true
}

// rsyslogEscapes are what rsyslog writes for control characters, of those that divide and color columns.
var rsyslogEscapes = strings.NewReplacer("#011", "\t", "#033", "\x1b")

// plainLevel returns a level without its color.
func plainLevel(text string) string {
	if strings.HasPrefix(text, "\x1b[") {
		_, text, _ = strings.Cut(text, "m")
		text, _, _ = strings.Cut(text, "\x1b")
	}
	return text
}

// openCompose opens "web-1  | …" of docker compose logs.
func openCompose(line string) (l letter, ok bool) {
	name, rest, found := strings.Cut(line, " ")
	rest, bar := strings.CutPrefix(strings.TrimLeft(rest, " "), "|")
	if !found || !bar || !isName(name) {
		return l, false
	}
	l.text = strings.TrimPrefix(rest, " ")
	return l, true
}

// isName reports whether a word may be the name of a container or a program.
func isName(word string) bool {
	for i := range len(word) {
		if c := word[i]; (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' && c != '/' && c != '@' {
			return false
		}
	}
	return word != ""
}

// isInstant reports whether a word is a time as in RFC 3339.
func isInstant(word string) bool {
	if len(word) < len("2006-01-02T15:04:05Z") || word[4] != '-' || word[10] != 'T' {
		return false
	}
	_, err := time.Parse(time.RFC3339, word)
	return err == nil
}

// openCRI opens "<time> stdout F …" of Kubernetes. P in place of F is a part of a line.
func openCRI(line string) (l letter, ok bool) {
	instant, rest, _ := strings.Cut(line, " ")
	stream, rest, _ := strings.Cut(rest, " ")
	tag, text, found := strings.Cut(rest, " ")
	if !found && tag != "F" && tag != "P" || stream != "stdout" && stream != "stderr" || !isInstant(instant) {
		return l, false
	}
	tag, _, _ = strings.Cut(tag, ":") // more tags may follow
	return letter{text: text, stream: stream, part: tag == "P"}, tag == "F" || tag == "P"
}

// openDockerTime opens "<time> …" of docker logs -t.
func openDockerTime(line string) (l letter, ok bool) {
	instant, text, found := strings.Cut(line, " ")
	return letter{text: text}, found && isInstant(instant)
}
