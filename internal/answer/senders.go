package answer

import "net/http"

// The forms for clients that send data on after a 503, and lose it at 429.
var (
	// remoteWrite is that of Prometheus's remote write (specification 1.0, "Retries & Backoff"): a sender must send samples
	// again after a status of 5xx, and may drop them after 429, as Prometheus does unless it has retry_on_http_429.
	remoteWrite = Form{contentType: text.contentType, status: statusUnavailable, append: appendText}

	// tus is that of resumable uploads (tus.io, version 1.0.0): at 429 tus-js-client gives an upload up, after 503 it asks by
	// HEAD how far the upload is, and goes on from there.
	tus = Form{contentType: text.contentType, status: statusUnavailableByDefault, append: appendText}
)

// senderForm returns the form of a request that brings samples by remote write, or begins an upload or sends a part of one; nil:
// it does neither.
func senderForm(q Request) *Form {
	switch {
	case q.Method == http.MethodPost && len(q.Header["X-Prometheus-Remote-Write-Version"]) > 0:
		return &remoteWrite
	case (q.Method == http.MethodPost || q.Method == http.MethodPatch) && len(q.Header["Tus-Resumable"]) > 0:
		return &tus
	}
	return nil
}
