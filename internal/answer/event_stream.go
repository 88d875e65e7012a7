package answer

import (
	"net/http"
	"strconv"
)

// eventStream is the form of EventSource (HTML, "Server-sent events"): any answer but 200 closes it for ever, and a script
// is told no status. An empty stream ends, and the browser comes back after the time that the stream has told.
var eventStream = Form{contentType: "text/event-stream", status: statusOK, append: appendRetry}

// appendRetry appends the time in milliseconds.
func appendRetry(body []byte, _ http.Header, _ Request, r Refusal) []byte {
	return append(strconv.AppendInt(append(body, "retry: "...), r.Wait.Seconds()*1000, 10), "\n\n"...)
}
