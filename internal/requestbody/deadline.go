package requestbody

import (
	"io"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// deadline bounds the time in which a body is read. It ends a read that waits for the client:
//   - Where Caddy watches for idle clients, which it does unless read_idle_timeout is off, its reader of the body gets the
//     deadline. It sets one of its own before each read, and keeps the server's read_timeout.
//   - Otherwise the server gets it through the response's writer, by HTTP/1.1, HTTP/2 and HTTP/3.
//   - Where a writer hides the server, the body is closed at the deadline, which ends a read by HTTP/2 and HTTP/3. By
//     HTTP/1.1 nothing ends one, nor would the server answer before the read ends; the deadline is looked at behind it.
//
// A deadline that a handler in front has set itself cannot be found out, and does not hold any more afterwards.
type deadline struct {
	at     time.Time
	idle   *caddyhttp.IdleTimeoutReader // has the deadline; nil: none does
	writer http.ResponseWriter          // of a server that has the deadline; nil: none does
	before time.Time                    // the deadline of that server otherwise; zero: none
	timer  *time.Timer                  // closes the body; nil: none does
}

// setDeadline begins the time to read a body.
func setDeadline(w http.ResponseWriter, r *http.Request, body io.Closer, within time.Duration) (d deadline) {
	now := time.Now()
	d.at = now.Add(within)
	if idle, _ := caddyhttp.IdleTimeoutsFromContext(r.Context()); idle != nil && idle.SetReadDeadline(d.at) == nil {
		d.idle = idle
		return d
	}
	d.before = serverDeadline(r, now)
	at := d.at
	if !d.before.IsZero() && d.before.Before(at) {
		at = d.before
	}
	if http.NewResponseController(w).SetReadDeadline(at) == nil {
		d.writer = w
		return d
	}
	if r.ProtoMajor > 1 {
		d.timer = time.AfterFunc(within, func() { _ = body.Close() })
	}
	return d
}

// serverDeadline returns the deadline that a server has for a request by its read_timeout; zero: none. As Caddy does, it
// counts from the beginning of the handlers; net/http counts from the first byte of the request. The server of HTTP/3
// has no such timeout.
func serverDeadline(r *http.Request, now time.Time) time.Time {
	server, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok || server.ReadTimeout <= 0 {
		return time.Time{}
	}
	start, ok := caddyhttp.GetVar(r.Context(), "start_time").(time.Time)
	if !ok {
		start = now
	}
	return start.Add(server.ReadTimeout)
}

// hasPassed reports whether the time is over.
func (d *deadline) hasPassed() bool { return !time.Now().Before(d.at) }

// endedRead reports whether a read has failed because its body was closed at the deadline.
func (d *deadline) endedRead() bool { return d.timer != nil && d.hasPassed() }

// restore puts back the deadline from before. After the body's end Caddy has none: net/http waits for the end of the
// connection meanwhile, and a deadline that passes would end the request.
func (d *deadline) restore(result ReadResult) {
	switch {
	case d.timer != nil:
		d.timer.Stop()
	case result == TooSlow:
		// The deadline stays, so that the server does not wait for the rest of the body before it answers.
	case d.idle != nil:
		_ = d.idle.SetReadDeadline(time.Time{}) // one that was set can be set again
		if (result == Whole || result == Absent) && !d.idle.Deadline.HardDeadline.IsZero() {
			_ = d.idle.Ctrl.SetReadDeadline(time.Time{})
		}
	case d.writer != nil:
		_ = http.NewResponseController(d.writer).SetReadDeadline(d.before)
	}
}
