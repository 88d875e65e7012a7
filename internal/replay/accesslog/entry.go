// Package accesslog reads the access logs of web servers as one stream of requests in the order of their
// arrival. It reads Caddy's JSON, Common and Combined Log Format, plain or compressed, from several files at
// once. Its memory is bounded for any content.
package accesslog

import "net/http"

// Entry is one request of a log. Its strings are text of strangers: use display.EscapeShort to show them.
type Entry struct {
	// Time is when the request arrived, in microseconds since the Unix epoch. Caddy logs a request at its
	// end, so its duration is subtracted.
	Time int64

	// Ends is when the response ended, in microseconds since the Unix epoch, never before Time; 0 if the
	// log has no duration, as in Common and Combined Log Format.
	Ends int64

	// Client is an address or a host name: Caddy's client_ip, or else its remote_ip; in other formats that of the place
	// which was decided for the file. An address has no port. It is empty if the log has none, see Summary.NoClient.
	Client string

	// Remote is the peer of the connection, which may be a proxy.
	Remote string

	// User is the authenticated user; empty without one.
	User string

	// Method is empty if the request line has none, as in some attacks.
	Method string

	// Host is empty in Common and Combined Log Format, unless the URL is absolute.
	Host string

	// URI is the path and query, or a whole request line without a method.
	URI string

	// Proto is the protocol, such as HTTP/1.1; empty if the log has none.
	Proto string

	// Header holds the request's header fields in the log: all in Caddy's JSON, in other formats Referer, User-Agent and
	// X-Forwarded-For where they have these; nil without any.
	Header http.Header

	// TLS is true if the request came encrypted, according to Caddy's JSON.
	TLS bool

	// Status is the response's status code; 0 if the log has none.
	Status int

	// Size is the number of bytes of the response's body; 0 if the log has none.
	Size int64

	headers  string // the header as JSON, until Next returns the entry
	referer  string
	agent    string
	more     *headerField // further fields of the header, the last first
	response string       // the response's header as JSON
	bytes    int          // of text that the entry keeps in memory
	file     int          // its index among the files
	line     int64        // its number in the file, from 1
	place    int64        // what the window that it waits in sorts by
	spread   int64        // microseconds that Time and Ends were moved from the whole second of the log

	clock         clock // what Time is
	peer          bool  // Client is Remote, because the log has no client
	lastForwarded bool  // Client is the last of X-Forwarded-For, because the line has no peer
	zoneless      bool  // Time has no offset from UTC
	absolute      bool  // Host is that of an absolute URL
	hostBehind    bool  // Host stands behind the client
	schemeless    bool  // the log has the host, and does not tell whether the request came encrypted
	allHeaders    bool  // the line has the whole header
	tellsReferer  bool  // it has a place for Referer
	tellsAgent    bool  // it has one for User-Agent
}

// HasScheme reports whether the log tells if the request came encrypted.
func (e *Entry) HasScheme() bool { return e.Host != "" && !e.schemeless }

// AtSecondStart returns the entry with its time as in the log, where that is a whole second.
func (e *Entry) AtSecondStart() Entry {
	start := *e
	if start.Time -= e.spread; e.Ends != 0 {
		start.Ends -= e.spread
	}
	return start
}

// before reports whether an entry precedes another of the same file in a window.
func (e *Entry) before(other *Entry) bool {
	if e.place != other.place {
		return e.place < other.place
	}
	return e.line < other.line
}

// setTime sets a time that a line has, in microseconds, and what that is. It must come before setDuration.
func (e *Entry) setTime(micros int64, m moment, coarse bool) {
	e.Time, e.clock = micros, clock{m, coarse}
}

// setDuration sets how long a request took, in microseconds: a time of its end makes one of its start. Where the format
// does not tell which of the two its time is, the duration says nothing.
func (e *Entry) setDuration(micros int64) {
	if micros < 0 || micros > longestRequest.Microseconds() {
		return
	}
	switch e.clock.moment {
	case startMoment:
		e.Ends = e.Time + micros
	case endMoment:
		e.Ends = e.Time
		e.Time -= micros
	case unknownMoment:
	}
}
