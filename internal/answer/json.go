package answer

import (
	"net/http"
	"strconv"
)

// The JSON document, as JSON that web APIs send, and as problem details.
var (
	document = Form{contentType: "application/json", append: appendDocument}
	problem  = Form{contentType: "application/problem+json", append: appendDocument}
)

// registry is the form of OCI's distribution API (distribution specification 1.1, "Error Codes"): its clients read errors,
// and wait for 429 alone.
var registry = Form{contentType: "application/json", status: statusOfCause, append: appendDocument}

// couchDB is the form of CouchDB's API ("JSON Basics"): the error is a text. PouchDB's replication fails by it, or waits and goes on,
// and ends with the program at an object in its place. What it asks for the database itself, GET /db/, shows no one that it is for
// CouchDB.
var couchDB = Form{contentType: "application/json", append: appendReason}

// appendReason appends an error of CouchDB.
func appendReason(body []byte, _ http.Header, _ Request, r Refusal) []byte {
	body = append(append(body, `{"error":"`...), causes[r.Cause].code...)
	body = append(body, `","reason":"`...)
	return append(r.appendSentence(body), "\"}\n"...)
}

// appendDocument appends a JSON document in which clients of many kinds find what they look for:
//
//	type, title, status, detail   RFC 9457
//	violated-policies             draft-ietf-httpapi-ratelimit-headers-11; of a denial
//	message, code                 SDKs that print these, such as Twilio's and GitHub's
//	error                         an object for those of OpenAI, Anthropic and Stripe; without it Stripe's takes the refusal
//	                              for a success
//	errors                        OCI's distribution API
//	left, needed                  units, of a denial for the request's weight
//	retry_after                   whole seconds, as in Retry-After; absent with that
//
// No text in it needs escapes: names of policies consist of letters, digits and a few signs.
func appendDocument(body []byte, _ http.Header, _ Request, r Refusal) []byte {
	told := &causes[r.Cause]
	body = append(append(body, `{"type":"`...), told.problem...)
	body = append(append(body, `","title":"`...), told.title...)
	body = strconv.AppendInt(append(body, `","status":`...), int64(r.Status), 10)
	body = append(body, `,"detail":"`...)
	begin := len(body)
	body = r.appendSentence(body)
	sentence := body[begin:]
	body = append(body, '"')
	before := `,"violated-policies":["`
	for i := range r.Checks {
		if !r.Checks[i].Result.Passes() {
			body = append(append(body, before...), r.Checks[i].Policy.Name()...)
			before = `","`
		}
	}
	if before == `","` {
		body = append(body, `"]`...)
	}
	body = append(append(body, `,"message":"`...), sentence...)
	body = append(append(body, `","code":"`...), told.code...)
	body = append(append(body, `","error":{"type":"`...), told.kind...)
	body = append(append(body, `","code":"`...), told.code...)
	body = append(append(body, `","message":"`...), sentence...)
	body = append(append(body, `"},"errors":[{"code":"`...), told.registry...)
	body = append(append(body, `","message":"`...), sentence...)
	body = r.Lack.appendMembers(append(body, `"}]`...), ",")
	if seconds := r.Wait.Seconds(); seconds > 0 {
		body = strconv.AppendInt(append(body, `,"retry_after":`...), seconds, 10)
	}
	return append(body, '}')
}
