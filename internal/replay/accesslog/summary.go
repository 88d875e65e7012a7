package accesslog

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/escape"
)

const (
	// shownMalformed is how many malformed lines are shown.
	shownMalformed = 5

	// shownText is how much of one is shown, in characters.
	shownText = 120

	// maxRedacted is how many names of headers are remembered as redacted.
	maxRedacted = 64

	// clientIP and userID are the names in Summary.Redacted that are no headers.
	clientIP, userID = "client_ip", "user_id"
)

// Summary tells what was in the logs as far as they have been read.
type Summary struct {
	// Entries is the number of requests that were handed out.
	Entries int64

	// First and Last are the times of the first and the last of them, in microseconds since the
	// Unix epoch.
	First, Last int64

	// Late is how many of them came out of the window later than their time, and LatestBy how much
	// the latest one. They were handed out with the time of the request before.
	Late     int64
	LatestBy time.Duration

	// Zoneless is how many of them have a time that does not tell how far the clock was from UTC. It
	// was taken for UTC, as Caddy writes it without time_local.
	Zoneless int64

	// NoClient is how many of them have no client.
	NoClient int64

	// PeerClients is how many of them have no client_ip in their line of JSON, so that the peer of the
	// connection counts as the client.
	PeerClients int64

	// ClientWord is the only client of at least 100 requests if it is neither an address nor the full
	// name of a host, but a word that may stand for any client.
	ClientWord string

	// MaskedClients tells that all addresses of clients end in zeros, as a filter such as ip_mask
	// leaves them, so that many clients are one.
	MaskedClients bool

	// Redacted are the names of the header fields, and client_ip and user_id, whose values were
	// replaced by REDACTED, with the number of entries. Headers that were skipped are not counted.
	Redacted map[string]int64

	// Malformed are the first malformed lines, five at most.
	Malformed []Malformed

	// Files are the logs in the order in which they were named.
	Files []FileReport
}

// Malformed is a line that cannot be read.
type Malformed struct {
	Line   Position
	Reason string
	Text   string // shortened, fit for a terminal
}

// FileReport tells what was in one file.
type FileReport struct {
	Name string

	// Packing is plain, gzip, zstd, or what else the file turned out to be.
	Packing string

	// Lines is the number of all lines: entries, other ones and malformed ones.
	Lines int64

	// Malformed is the number of those that cannot be read.
	Malformed int64

	// Formats is the number of the other lines by their [Format].
	Formats [formats]int64

	// GuessedDurations tells that its durations are whole numbers that were taken for milliseconds and
	// may as well be nanoseconds. The requests arrived so much before the time of their line.
	GuessedDurations bool

	// Err is why the file was not read to its end: it is cut off, damaged or no log. What was read
	// before counts.
	Err error
}

// Summary returns what is known so far. The entries that wait in the window are counted among the
// lines already.
func (r *Reader) Summary() Summary {
	s := r.summary
	s.NoClient, s.PeerClients = r.clients.missing, r.clients.peers
	s.ClientWord, s.MaskedClients = r.clients.word(), r.clients.masked()
	s.Malformed, s.Files, s.Redacted = slices.Clone(s.Malformed), slices.Clone(s.Files), maps.Clone(s.Redacted)
	return s
}

// Total adds up what the files tell of their lines.
func (s *Summary) Total() FileReport {
	var total FileReport
	for i := range s.Files {
		total.Lines += s.Files[i].Lines
		total.Malformed += s.Files[i].Malformed
		for format, lines := range s.Files[i].Formats {
			total.Formats[format] += lines
		}
	}
	return total
}

// malformed remembers a line, if it is one of the first.
func (s *Summary) malformed(line Position, reason, text string) {
	if len(s.Malformed) < shownMalformed {
		s.Malformed = append(s.Malformed, Malformed{Line: line, Reason: reason, Text: escape.Short(text, shownText)})
	}
}

// countRedacted counts what Caddy, or a filter, has replaced in an entry.
func (s *Summary) countRedacted(e *Entry) {
	if e.Client == redacted {
		s.redact(clientIP)
	}
	if e.User == redacted {
		s.redact(userID)
	}
	if e.headers == "" || !strings.Contains(e.headers, redacted) {
		return
	}
	for name, values := range e.Header {
		if slices.Contains(values, redacted) {
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
