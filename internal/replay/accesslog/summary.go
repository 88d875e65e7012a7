package accesslog

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

const (
	// maxKinds bounds the kinds of lines that are told apart.
	maxKinds = 64

	// shownText is the length of the part of each that is shown, in characters.
	shownText = 120

	// maxRedacted bounds the names of headers in Summary.Redacted.
	maxRedacted = 64

	// clientIP and userID are the names in Summary.Redacted that are not headers.
	clientIP, userID = "client_ip", "user_id"
)

// Summary describes the logs as far as they have been read.
type Summary struct {
	// Entries is the number of requests that Next has returned.
	Entries int64

	// Late is how many of them left the window after a later one, and LatestBy by how much at most. They
	// have the time of the request before.
	Late     int64
	LatestBy time.Duration

	// Zoneless is how many of them have a time without an offset. It is taken for UTC, as Caddy writes it
	// without time_local.
	Zoneless int64

	// NoClient is how many of them have no client.
	NoClient int64

	// PeerClients is how many of them have no client_ip in their line of JSON. The peer of the connection
	// counts as their client.
	PeerClients int64

	// Redacted counts the entries whose values were replaced by REDACTED, by the name of the header field,
	// client_ip or user_id.
	Redacted map[string]int64

	// LastForwarded is how many of them have no peer in their line, and so have the last address of X-Forwarded-For as
	// client.
	LastForwarded int64

	// UnknownMoment is how many of them have a time of which the format does not tell whether it is the start or the end.
	UnknownMoment int64

	// Skipped are the kinds of lines that are no requests, in the order in which they came.
	Skipped []Skipped

	// Files are the logs in the order in which they were named.
	Files []FileReport
}

// Skipped is a kind of lines that are no requests, with the first of them. It is safe on a terminal.
type Skipped struct {
	Where  string `json:"where"` // file:line
	Reason string `json:"reason"`
	Text   string `json:"text"`  // shortened; of JSON its keys
	Lines  int64  `json:"lines"` // of this kind

	// Other is true for well-formed lines that say something else than a request; others cannot be read.
	Other bool `json:"-"`
}

// FileReport describes one file.
type FileReport struct {
	Name string

	// Packing is plain, gzip, zstd, or a kind that cannot be read.
	Packing string

	// Lines is the number of all lines: entries, others and malformed ones.
	Lines int64

	// Malformed is the number of those that cannot be read.
	Malformed int64

	// Formats is the number of the lines with a request, by the name of their format.
	Formats map[string]int64

	// Other is the number of well-formed lines without a request: blank lines, other messages of a server, and
	// connections that sent no request.
	Other int64

	// Client says where lines have the client, if that was decided by the first lines; otherwise it is empty.
	Client string

	// Clock is what the time of the first request is; nil without one.
	Clock *clock

	// First is the beginning of the first line that is not blank, safe on a terminal.
	First string

	// Err is why the file was not read to its end: it is cut off, damaged or no log. The lines before
	// count.
	Err error
}

// Requests returns the number of lines that are requests.
func (f *FileReport) Requests() int64 { return f.Lines - f.Malformed - f.Other }

// Format returns the name of the format of most lines with a request; other if there is none.
func (f *FileReport) Format() string {
	format, most := "other", int64(0)
	for _, name := range slices.Sorted(maps.Keys(f.Formats)) {
		if f.Formats[name] >= most {
			format, most = name, f.Formats[name]
		}
	}
	return format
}

func (f *FileReport) countFormat(name string) {
	if f.Formats == nil {
		f.Formats = map[string]int64{}
	}
	f.Formats[name]++
}

func (f *FileReport) countSkipped(why fault) {
	if why.other {
		f.Other++
	} else {
		f.Malformed++
	}
}

// Fault returns what is wrong with a file: [FileReport.Err], or that none of its lines is a request. A file without
// any text has no fault: a rotation leaves such logs behind.
func (f *FileReport) Fault() error {
	if f.Err != nil || f.First == "" || f.Requests() > 0 {
		return f.Err
	}
	return fmt.Errorf("no line is a request; the first is %s", f.First)
}

// Summary returns the summary so far. The lines include the entries in the window.
func (r *Reader) Summary() Summary {
	s := r.summary
	s.Skipped, s.Files, s.Redacted = slices.Clone(s.Skipped), slices.Clone(s.Files), maps.Clone(s.Redacted)
	for i := range s.Files {
		s.Files[i].Formats = maps.Clone(s.Files[i].Formats)
	}
	return s
}

// Total adds up the line counts of the files.
func (s *Summary) Total() FileReport {
	var total FileReport
	for i := range s.Files {
		total.Lines += s.Files[i].Lines
		total.Malformed += s.Files[i].Malformed
		total.Other += s.Files[i].Other
	}
	return total
}

// skipped counts the last line that was read of a file, and keeps the first of each kind.
func (s *Summary) skipped(f *FileReport, why fault, text string) {
	for i := range s.Skipped {
		if s.Skipped[i].Reason == why.kind {
			s.Skipped[i].Lines++
			return
		}
	}
	if len(s.Skipped) >= maxKinds || why == blankLine {
		return
	}
	if why == foreignJSON || why == noRequestKeys {
		text = "keys " + keysOf(text)
	}
	where := display.EscapeShort(f.Name, 200) + ":" + strconv.FormatInt(f.Lines, 10)
	s.Skipped = append(s.Skipped, Skipped{Where: where, Reason: why.kind, Text: display.EscapeShort(text, shownText), Lines: 1, Other: why.other})
}

// keysOf returns the keys of an object, as many as a shown text can have.
func keysOf(object string) string {
	var keys []string
	m := members{text: object}
	for length := 0; length < shownText && m.next(); length += len(m.key) {
		keys = append(keys, m.key)
	}
	return strings.Join(keys, ", ")
}

// countRedacted counts the values that Caddy or a filter has replaced in an entry.
func (s *Summary) countRedacted(e *Entry) {
	if e.Client == Redacted {
		s.redact(clientIP)
	}
	if e.User == Redacted {
		s.redact(userID)
	}
	if e.headers == "" || !strings.Contains(e.headers, Redacted) {
		return
	}
	for name, values := range e.Header {
		if slices.Contains(values, Redacted) {
			s.redact(name)
		}
	}
}

func (s *Summary) redact(name string) {
	if count, found := s.Redacted[name]; found {
		s.Redacted[name] = count + 1
	} else if len(s.Redacted) < maxRedacted {
		s.Redacted[strings.Clone(name)] = 1
	}
}
