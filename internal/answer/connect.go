package answer

import (
	"encoding/binary"
	"net/http"
)

// connect is the form of a call of the Connect protocol that does not stream
// (connectrpc.com/docs/protocol, "Error End-Stream" and "Unary-Response"): an error in JSON under its code's status.
var connect = Form{contentType: "application/json", status: statusOfCause, append: appendConnectError}

// connectStreams are the forms of streams of the Connect protocol, by media type.
var connectStreams = map[string]*Form{
	"application/connect+proto": {contentType: "application/connect+proto", status: statusOK, append: appendConnectEnd},
	"application/connect+json":  {contentType: "application/connect+json", status: statusOK, append: appendConnectEnd},
}

// appendConnectError appends an error.
func appendConnectError(body []byte, _ http.Header, _ Request, r Refusal) []byte {
	body = append(append(body, `{"code":"`...), causes[r.Cause].connect...)
	body = append(append(body, `","message":"`...), r.call()...)
	return append(body, `"}`...)
}

// appendConnectEnd appends the frame that ends a stream with an error: a byte of flags, the length of what follows in four
// bytes, big-endian, and an object with the error.
func appendConnectEnd(body []byte, header http.Header, q Request, r Refusal) []byte {
	const endStream, prefix = 2, 5
	begin := len(body)
	body = append(body, endStream, 0, 0, 0, 0)
	body = append(body, `{"error":`...)
	body = append(appendConnectError(body, header, q, r), '}')
	binary.BigEndian.PutUint32(body[begin+1:], uint32(len(body)-begin-prefix)) //nolint:gosec // a short text
	return body
}
