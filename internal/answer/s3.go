package answer

import (
	"net/http"
	"strconv"
)

// s3 is the form of S3 ("Error responses" of its API reference): an error in XML with the code SlowDown. AWS's SDKs come
// back from a 503 sooner than from a 429. Those in Go ignore Retry-After, and wait by the header in milliseconds.
var s3 = Form{contentType: "application/xml", status: statusOfCause, append: appendSlowDown, exposed: []string{amzRetryAfter}}

const amzRetryAfter = "X-Amz-Retry-After"

// appendSlowDown appends the error.
func appendSlowDown(body []byte, header http.Header, _ Request, r Refusal) []byte {
	delete(header, amzRetryAfter)
	if seconds := r.Wait.Seconds(); seconds > 0 {
		header[amzRetryAfter] = []string{strconv.FormatInt(seconds*1000, 10)}
	}
	body = append(body, `<?xml version="1.0" encoding="UTF-8"?>`+"\n<Error><Code>SlowDown</Code><Message>"...)
	return append(r.appendSentence(body), "</Message></Error>"...)
}
