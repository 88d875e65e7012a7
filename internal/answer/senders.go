package answer

import (
	"net/http"
	"strings"
)

// The forms for clients that send data on after a 503, and lose it at 429.
var (
	// remoteWrite is that of Prometheus's remote write (specification 1.0, "Retries & Backoff"): a sender must send samples
	// again after a status of 5xx, and may drop them after 429, as Prometheus does unless it has retry_on_http_429.
	remoteWrite = Form{contentType: text.contentType, status: statusUnavailable, append: appendText}

	// tus is that of resumable uploads (tus.io, version 1.0.0): at 429 tus-js-client gives an upload up, after 503 it asks by
	// HEAD how far the upload is, and goes on from there.
	tus = Form{contentType: text.contentType, status: statusUnavailableByDefault, append: appendText}

	// influxWrite is that of points for InfluxDB 2 and 3, without Retry-After up to a minute. InfluxDB's client for node (1.35.0)
	// takes the seconds for milliseconds, and drops the points after six tries within a second. Without the header it comes back
	// after 5, 10, 20, 40 seconds and more, each at random up to twice as long, as the clients for Go and Python do.
	influxWrite = Form{contentType: text.contentType, append: appendPointsWait}
)

// senderForm returns the form of a request that brings samples by remote write or points for InfluxDB, or begins an upload or
// sends a part of one; nil: it does neither.
func senderForm(q Request) *Form {
	switch {
	case q.Method == http.MethodPost && len(q.Header["X-Prometheus-Remote-Write-Version"]) > 0:
		return &remoteWrite
	case q.Method == http.MethodPost && strings.HasSuffix(q.URL.Path, "/api/v2/write") &&
		strings.HasPrefix(only(q.Header["Authorization"]), "Token "):
		return &influxWrite
	case (q.Method == http.MethodPost || q.Method == http.MethodPatch) && len(q.Header["Tus-Resumable"]) > 0:
		return &tus
	}
	return nil
}

// appendPointsWait appends the line of text, and takes a wait out of the header that the clients of InfluxDB sit out without
// being told: four tries of theirs are over 75 seconds after the first at the earliest. They give up after 180.
func appendPointsWait(body []byte, header http.Header, _ Request, r Refusal) []byte {
	if r.Wait.told <= longestSleep {
		delete(header, RetryAfter)
	}
	return r.appendSentence(body)
}
