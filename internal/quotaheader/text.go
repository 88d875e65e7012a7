package quotaheader

import (
	"net/http"
	"sync"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Text is a refusal as one line of plain text, which people see in a browser and in what programs print. It names
// neither policies nor keys.
type Text struct {
	status   int
	sentence string
	wait     time.Duration // until the request may be repeated: 0 is unknown, [limiter.Never] never
}

// DeniedText is the text of a denied request, which may be repeated after a time.
func DeniedText(status int, wait time.Duration) Text {
	return Text{status, "Too many requests.", wait}
}

// UndecidedText is the text of a request that no store could decide.
func UndecidedText(wait time.Duration) Text {
	return Text{http.StatusServiceUnavailable, "The service is unavailable.", wait}
}

// TextRefusedBy is the text of a request that is refused with a status without a decision, and reports whether there
// is one.
func TextRefusedBy(status int) (text Text, found bool) {
	sentence := ""
	switch status {
	case http.StatusBadRequest:
		sentence = "The request lacks a value that is required, or repeats it."
	case http.StatusTooEarly:
		sentence = "The TLS handshake is not complete. Send the request again."
	case http.StatusServiceUnavailable:
		sentence = "Too many requests are waiting. Try again later."
	case http.StatusGatewayTimeout:
		sentence = "The request took too long."
	}
	return Text{status, sentence, 0}, sentence != ""
}

// Write answers with the text, or with its status alone to HEAD. A client that has left before the body is no error.
func (t Text) Write(w http.ResponseWriter, isHead bool) {
	if isHead {
		w.WriteHeader(t.status)
		return
	}
	beginBody(w.Header(), "text/plain; charset=utf-8")
	w.WriteHeader(t.status)
	buffer, ok := textBuffers.Get().(*[textLen]byte)
	if !ok {
		buffer = new([textLen]byte)
	}
	defer textBuffers.Put(buffer)
	_, _ = w.Write(t.append(buffer[:0]))
}

// append appends the line.
func (t Text) append(line []byte) []byte {
	line = append(line, t.sentence...)
	if t.wait != 0 && t.wait != limiter.Never {
		line = append(display.AppendWait(append(line, " Try again in "...), t.wait), '.')
	}
	return line
}

// textLen is room for any line.
const textLen = 128

// textBuffers has the memory of lines, which no [http.ResponseWriter] keeps.
var textBuffers sync.Pool

// ofPages are the headers of a body that handlers further out may have set for the page that is not sent.
var ofPages = []string{"Content-Encoding", "Content-Length", "Content-Disposition", "Accept-Ranges", "Etag", "Last-Modified"}

// beginBody sets the headers of a refusal's body.
func beginBody(header http.Header, contentType string) {
	for _, name := range ofPages {
		delete(header, name)
	}
	header["Content-Type"] = []string{contentType}
}
