// Package accesslog reads the access logs of web servers as one stream of requests in the order of
// their arrival: Caddy's JSON, Common and Combined Log Format, plain or compressed, from several
// files at once, in bounded memory, whatever the files hold.
package accesslog

import (
	"net/http"
	"strconv"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/escape"
)

// Entry is one request of a log. Strings are what the log says, text of strangers: what is shown
// goes through [escape.Short] first.
type Entry struct {
	// Time is when the request arrived, in microseconds since the Unix epoch. Caddy logs a request
	// at its end, so that its duration is subtracted.
	Time int64

	// Client is an address or a host name: Caddy's client_ip, else its remote_ip; the first field
	// of the Common Log Format. It is empty where the log does not tell, see Summary.NoClient.
	Client string

	// Remote is the peer of the connection, which is a proxy for some.
	Remote string

	// User is who was authenticated, empty for nobody.
	User string

	// Method is empty where the request line of a log has none, as an attack's may.
	Method string

	// Host is empty in Common and Combined Log Format, which do not tell.
	Host string

	// URI is the path and query, or all of a request line without a method.
	URI string

	// Proto is such as HTTP/1.1, empty where the log does not tell.
	Proto string

	// Header is what the log tells of the request's header: all of it in Caddy's, Referer and
	// User-Agent in Combined Log Format; nil where there is none.
	Header http.Header

	// TLS tells that the request came encrypted, as Caddy's JSON does; false where the log does not
	// tell.
	TLS bool

	// Status is the response's status code, 0 where the log does not tell.
	Status int

	// Size is the number of bytes of the response's body, 0 where the log does not tell.
	Size int64

	// Line is where the request stands.
	Line Position

	headers  string // the header as JSON, until the entry is handed out
	referer  string
	agent    string
	response string // the response's header as JSON
	bytes    int    // of the text that the entry keeps in memory
	peer     bool   // Client is Remote, because the log does not tell it
	zoneless bool   // its time does not tell how far the clock was from UTC
}

// Position is a place in a log.
type Position struct {
	File string // as it was asked for
	Line int64  // from 1
}

// String is the usual file:line, fit for a terminal.
func (p Position) String() string {
	return escape.Short(p.File, 200) + ":" + strconv.FormatInt(p.Line, 10)
}

// before is the order of the requests of one file.
func (e *Entry) before(other *Entry) bool {
	if e.Time != other.Time {
		return e.Time < other.Time
	}
	return e.Line.Line < other.Line.Line
}

// Format is how a line is written.
type Format uint8

const (
	// Other is a line that is well-formed and tells of no request: a blank one, a message of
	// Caddy's that is no access log, a connection that never sent a request.
	Other Format = iota

	// Common is the Common Log Format.
	Common

	// Combined is Common with Referer and User-Agent.
	Combined

	// CaddyJSON is Caddy's JSON access log.
	CaddyJSON

	formats
)

// String is the name of a format as an operator knows it.
func (f Format) String() string {
	return [...]string{"other", "Common Log Format", "Combined Log Format", "Caddy JSON"}[f%formats]
}
