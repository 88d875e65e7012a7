package gate

import "net/http"

// noteAnswer notes the status that this handler answers with, for handlers further out, which see the header next.
func (x *Exchange) noteAnswer(status int) {
	if d := x.knownDecision(); d != nil {
		d.answered = uint16(status)
	}
}

// answerWriter writes an answer of this handler whose status another package chooses.
type answerWriter struct {
	http.ResponseWriter
	exchange *Exchange
}

// WriteHeader implements [http.ResponseWriter].
func (w answerWriter) WriteHeader(status int) {
	w.exchange.noteAnswer(status)
	w.ResponseWriter.WriteHeader(status)
}
