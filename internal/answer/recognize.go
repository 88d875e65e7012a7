package answer

import (
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// recognize returns the form that a request's client understands: the first that suits. Nothing is taken from the request's
// values but which form suits.
func recognize(q Request, r Refusal) *Form {
	contentType := only(q.Header["Content-Type"])
	kind := mediaType(contentType)
	isDenial := r.Cause.isDenial()
	switch {
	case isGRPC(contentType, kind):
		return &grpc
	case !r.isRead():
		return nil
	case connectStreams[kind] != nil:
		return connectStreams[kind]
	case isConnect(q):
		return &connect
	case q.Method == http.MethodPost && kind == callType && isOfMCP(q):
		return callForm(q, r, true)
	case isDenial && isSignedForS3(q):
		return &s3
	case isOfRegistry(q):
		return &registry
	case isDenial && q.Method == http.MethodPost && kind == "application/jose+json":
		return &acme
	case isDenial && isEventSource(q) && r.isSoon():
		return &eventStream
	}
	if form := senderForm(q); form != nil && (isDenial || r.Cause == Unavailable || r.Cause == held) {
		return form
	}
	if form := preferredJSON(q.Header["Accept"], kind); form != nil {
		if form == &document && isOfCouchDB(q) {
			return &couchDB
		}
		return form
	}
	return &text
}

// isGRPC reports whether a request is a call of gRPC or gRPC-Web, by its Content-Type and the media type in that:
// application/grpc, application/grpc-web or application/grpc-web-text, alone or with the format of messages behind a plus.
func isGRPC(contentType, kind string) bool {
	form, found := strings.CutPrefix(kind, "application/grpc")
	if !found {
		return false
	}
	form, format, hasFormat := strings.Cut(form, "+")
	if form != "" && form != "-web" && form != "-web-text" || hasFormat && format == "" || strings.ContainsAny(format, "/*") {
		return false
	}
	if strings.Contains(contentType, ";") {
		_, _, err := mime.ParseMediaType(contentType)
		return err == nil
	}
	return true
}

// isConnect reports whether a request is a call of the Connect protocol that does not stream.
func isConnect(q Request) bool {
	if len(q.Header["Connect-Protocol-Version"]) > 0 {
		return true
	}
	return q.Method == http.MethodGet && parameter(q.URL.RawQuery, "connect") == "v1"
}

// parameter returns the first value of a parameter in a query that is not too long, as it stands there.
func parameter(query, name string) string {
	if len(query) > maxHeaderLen {
		return ""
	}
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		if key, value, found := strings.Cut(pair, "="); found && key == name {
			return value
		}
	}
	return ""
}

// isSignedForS3 reports whether a request is signed for S3 by AWS's signature 4, in its header or its query, and does not
// come from a browser that opens a signed address.
func isSignedForS3(q Request) bool {
	const algorithm = "AWS4-"
	var credential string
	switch authorization := only(q.Header["Authorization"]); {
	case len(authorization) > maxHeaderLen:
	case strings.HasPrefix(authorization, algorithm):
		_, credential, _ = strings.Cut(authorization, "Credential=")
		credential, _, _ = strings.Cut(credential, ",")
	case strings.HasPrefix(parameter(q.URL.RawQuery, "X-Amz-Algorithm"), algorithm):
		credential, _ = url.QueryUnescape(parameter(q.URL.RawQuery, "X-Amz-Credential"))
	}
	if credential == "" || only(q.Header["Sec-Fetch-Mode"]) == "navigate" {
		return false
	}
	return strings.Contains(credential, "/s3/") || strings.Contains(credential, "/s3express/")
}

// registryKinds are what stands behind a repository's name in the paths of OCI's distribution API.
var registryKinds = []string{"/manifests/", "/blobs/", "/tags/", "/referrers/"}

// isOfRegistry reports whether a request is one of OCI's distribution API for a repository, and not of a person.
func isOfRegistry(q Request) bool {
	path, found := strings.CutPrefix(q.URL.Path, "/v2/")
	if !found || len(path) > maxHeaderLen {
		return false
	}
	for _, kind := range registryKinds {
		if strings.LastIndex(path, kind) > 0 {
			return !acceptsPages(q.Header["Accept"])
		}
	}
	return false
}

// replicated are the last segments of paths by which CouchDB's replicator, and PouchDB's, asks for a database
// (docs.couchdb.org, "CouchDB Replication Protocol"). Its checkpoints are documents below _local.
var replicated = []string{"/_changes", "/_revs_diff", "/_bulk_docs", "/_bulk_get", "/_all_docs"}

// isOfCouchDB reports whether a request that prefers JSON is one of a replication.
func isOfCouchDB(q Request) bool {
	path := q.URL.Path
	if len(path) > maxHeaderLen {
		return false
	}
	folder := path[:max(0, strings.LastIndexByte(path, '/'))]
	return strings.HasSuffix(folder, "/_local") || slices.ContainsFunc(replicated, func(last string) bool { return strings.HasSuffix(path, last) })
}

// isEventSource reports whether a request is that of a browser's EventSource, which is closed for ever by any answer but
// 200. A script that reads an event stream by fetch sends no Cache-Control.
func isEventSource(q Request) bool {
	return q.Method == http.MethodGet && only(q.Header["Accept"]) == "text/event-stream" && only(q.Header["Cache-Control"]) == "no-cache" &&
		len(q.Header["Sec-Fetch-Mode"]) > 0 && only(q.Header["Sec-Fetch-Dest"]) == "empty"
}

// isSoon reports whether the request may be repeated within an hour: an empty event stream that begins anew costs little then.
func (r Refusal) isSoon() bool {
	seconds := r.Wait.Seconds()
	return seconds > 0 && seconds <= int64(time.Hour/time.Second)
}
