package requestbody

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// Bounds of what is read of requests that have their answer.
const (
	mostUploads         = 64 // at once in a process
	mostUploadsOfClient = 8  // at once of a client

	// UploadTime is how long a body may arrive whose request is refused.
	UploadTime = 2 * time.Second

	// DrainedByHTTP is the size in bytes up to which net/http reads a body that no handler has read, before it answers, and
	// keeps the connection (maxPostHandlerReadBytes of net/http). It reads nothing where the connection ends by the request.
	DrainedByHTTP = 256 << 10
)

// Uploads counts the refused requests of HTTP/1 whose bodies a process still reads, so that their answers arrive. net/http closes
// a connection whose body it has not read, and what is on the way then resets the connection, often before the client, or a
// server in front, has read the answer (RFC 9112, section 9.6). A nil Uploads has no room. It is safe for concurrent use.
type Uploads struct {
	mu      sync.Mutex
	reading int
	of      map[string]int // by client; none of a client that has no upload
}

// NewUploads returns room for uploads.
func NewUploads() *Uploads { return &Uploads{of: make(map[string]int)} }

// Enter takes a place for a client, and reports whether there was one. [Uploads.Leave] gives it back.
func (u *Uploads) Enter(client string) bool {
	if u == nil {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.reading >= mostUploads || u.of[client] >= mostUploadsOfClient {
		return false
	}
	u.reading++
	u.of[client]++
	return true
}

// Leave gives the place of a client back.
func (u *Uploads) Leave(client string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reading--
	if u.of[client]--; u.of[client] == 0 {
		delete(u.of, client)
	}
}

// Discard reads a request's body to its end, for [UploadTime] at most, and keeps nothing. The connection is used for nothing else
// afterwards: its read deadline has passed where the time was over.
func Discard(control *http.ResponseController, body io.Reader) {
	end := time.Now().Add(UploadTime)
	// Caddy's option read_idle sets a deadline of its own with each read, so that one that was set before the reads would not hold.
	timer := time.AfterFunc(UploadTime, func() {
		_ = control.SetReadDeadline(time.Now()) // the connection may have ended
	})
	defer timer.Stop()
	buffer := make([]byte, 32<<10)
	for time.Now().Before(end) {
		if _, err := body.Read(buffer); err != nil {
			return // the end, or a client that left
		}
	}
}
