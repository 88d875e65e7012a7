package gate

import (
	"net/http"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/answer"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/requestbody"
)

// answerUpload writes a refusal over HTTP/1 to a request whose body may still be on its way. Up to 256 KiB of a known length
// net/http reads before it answers, and keeps the connection: here it gets a time for that. Of other bodies net/http reads
// nothing, or closes the connection after a part, which loses the answer: here the answer goes first, and the body is read on
// for a while. Clients that do not fit, and those that are banned or blocked, are closed by net/http.
func (x *Exchange) answerUpload(form *answer.Form, q answer.Request, r answer.Refusal, values *answer.FormValues) {
	control := http.NewResponseController(x.ResponseWriter)
	client := shareOf(x.request)
	if !x.isReadOn(r) || !x.limiter.Process.Uploads.Enter(client) {
		_ = control.SetReadDeadline(time.Now().Add(requestbody.UploadTime)) // net/http takes it back; without a connection there is none
		form.Write(x.ResponseWriter, q, r, values)
		return
	}
	defer x.limiter.Process.Uploads.Leave(client)
	q.Complete = control.EnableFullDuplex() == nil // else net/http reads before it writes, as by the writer of another handler
	if q.Complete {
		x.Header().Set("Connection", "close")
	}
	form.Write(x.ResponseWriter, q, r, values)
	if q.Complete && control.Flush() == nil {
		requestbody.Discard(control, x.request.Body)
	}
}

// isReadOn reports whether the body of a refused request by HTTP/1 is read after the answer.
func (x *Exchange) isReadOn(r answer.Refusal) bool {
	request := x.request
	if r.Unwanted || x.isBodyAwaited() || !requestbody.MayHave(request) {
		return false
	}
	return request.Close || request.ContentLength < 0 || request.ContentLength > requestbody.DrainedByHTTP
}

// isBodyAwaited reports whether the client of a request by HTTP/1 waits for 100 Continue before it sends the body, of which
// nothing has been read.
func (x *Exchange) isBodyAwaited() bool {
	_, isRead := x.request.Body.(*requestbody.Body)
	return !isRead && len(x.request.Header["Expect"]) > 0
}
