package refusal

import "net/http"

// remoteWrite is the form of Prometheus's remote write (specification 1.0, "Retries & Backoff"): a sender must send samples
// again after a status of 5xx, and may drop them after 429, as Prometheus does unless it has retry_on_http_429.
var remoteWrite = Form{contentType: text.contentType, status: statusUnavailable, append: appendText}

// isRemoteWrite reports whether a request brings samples by remote write.
func isRemoteWrite(q Request) bool {
	return q.Method == http.MethodPost && len(q.Header["X-Prometheus-Remote-Write-Version"]) > 0
}
