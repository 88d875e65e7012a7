package answer

import (
	"net/http"
	"strconv"
	"sync"
)

// Form is a way to write a refusal.
type Form struct {
	contentType string // empty: that of the request, or none

	// status is what the form answers with where the status of the refusal does not do.
	status formStatus

	// append appends the body, and sets what headers the form has of its own.
	append func(body []byte, header http.Header, q Request, r Refusal) []byte

	// exposed are headers of the form that scripts of other origins need.
	exposed []string

	// mark is a header that the form alone sets; empty: the content type marks the form.
	mark string

	// goesFirst has the form taken even if an error route can answer the refusal.
	goesFirst bool
}

// formStatus says which status a form has.
type formStatus int

const (
	statusOfRefusal            formStatus = iota // 429 for a denial, or what the option status says
	statusOfCause                                // of HTTP for the cause, whatever the option says: clients go by it
	statusOK                                     // 200: the body or the trailers tell the refusal
	statusUnavailable                            // 503: clients give up at 429
	statusUnavailableByDefault                   // the same, unless the option says another one
)

// GoesFirst reports whether the form is taken even if an error route can answer the refusal. A client of gRPC takes any other
// answer for an outage, and a browser sends a request in early data again if the answer has the status 425, which an error
// route may replace.
func (f *Form) GoesFirst(r Refusal) bool { return f.goesFirst || r.Cause == early }

// Wrote reports whether an answer's header is that of the form.
func (f *Form) Wrote(header http.Header) bool {
	if f.mark != "" {
		return len(header[f.mark]) > 0
	}
	return only(header["Content-Type"]) == f.contentType
}

// Status returns the status of HTTP that the form answers a refusal with.
func (f *Form) Status(r Refusal) int {
	switch f.status {
	case statusOfCause:
		return causes[r.Cause].status
	case statusOK:
		return http.StatusOK
	case statusUnavailable:
		return http.StatusServiceUnavailable
	case statusUnavailableByDefault:
		if r.IsDefault {
			return http.StatusServiceUnavailable
		}
	}
	return r.Status
}

// ofPages are the headers of a body that handlers further out, or a response in whose place another is written, may have set for
// the page that is not sent.
var ofPages = []string{"Content-Encoding", "Content-Length", "Content-Disposition", "Accept-Ranges", "Etag", "Last-Modified"}

// DropPage takes the headers out of a response that are of a page which is not sent. With its length an answer of another length
// would break off.
func DropPage(header http.Header) {
	for _, name := range ofPages {
		delete(header, name)
	}
}

// Write answers a request with a refusal. The answer to HEAD has the header alone. A client that has left before the body is
// no error. What chooses a refusal and its form includes the client's address and the time, which is what Vary: * says (RFC
// 9110, section 12.5.5): a cache that stores refusals in spite of no-store repeats none. The headers refer to values, which
// belong to this answer alone; nil, or used already: new ones.
func (f *Form) Write(w http.ResponseWriter, q Request, r Refusal, values *FormValues) {
	header := w.Header()
	DropPage(header)
	r.Status = f.Status(r)
	buffer, ok := bodyBuffers.Get().(*[bodyLen]byte)
	if !ok {
		buffer = new([bodyLen]byte)
	}
	defer bodyBuffers.Put(buffer)
	body := f.append(buffer[:0], header, q, r)
	if len(body) > 0 {
		if values == nil || values[1] != "" {
			values = new(FormValues)
		}
		*values = FormValues{f.contentType, "nosniff", "*"} // which handlers further out may change
		header["Content-Type"] = values[0:1:1]
		header["X-Content-Type-Options"] = values[1:2:2]
		if earlier := header["Vary"]; len(earlier) > 0 {
			header["Vary"] = append(earlier[:len(earlier):len(earlier)], "*")
		} else {
			header["Vary"] = values[2:3:3]
		}
	}
	if len(f.exposed) > 0 {
		Expose(header, q.Header, f.exposed)
	}
	if q.Complete {
		header["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	w.WriteHeader(r.Status)
	if len(body) > 0 && q.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

// FormValues is memory for the values of one answer's headers.
type FormValues [3]string

// bodyLen is room for the bodies of most refusals.
const bodyLen = 1024

// bodyBuffers has the memory of bodies, which no [http.ResponseWriter] keeps.
var bodyBuffers sync.Pool

// The forms without a protocol.
var (
	text = Form{contentType: "text/plain; charset=utf-8", append: appendText}
	none = Form{append: appendNothing}
)

// appendText appends a line of text, which people see in a browser and in what programs print.
func appendText(body []byte, _ http.Header, _ Request, r Refusal) []byte {
	return r.appendSentence(body)
}

// appendNothing leaves the answer without a body and without the type of one.
func appendNothing(body []byte, header http.Header, _ Request, _ Refusal) []byte {
	delete(header, "Content-Type")
	return body
}
