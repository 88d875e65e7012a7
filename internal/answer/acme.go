package answer

import (
	"net/http"
	"strconv"
)

// acme is the form of ACME (RFC 8555, section 6.7): clients show the detail of a problem document of this type.
var acme = Form{contentType: "application/problem+json", status: statusOfCause, append: appendACME}

// appendACME appends the problem document of a denial.
func appendACME(body []byte, _ http.Header, _ Request, r Refusal) []byte {
	body = r.appendSentence(append(body, `{"type":"urn:ietf:params:acme:error:rateLimited","detail":"`...))
	body = strconv.AppendInt(append(body, `","status":`...), int64(r.Status), 10)
	return append(body, '}')
}
