package refusal

import (
	"slices"
	"strings"
)

// Answer is the option that says how refusals are answered.
type Answer string

// The answers. An answer that is written out goes before error routes.
const (
	AnswerDefault Answer = ""        // by an error route that can handle the refusal; else as auto
	AnswerAuto    Answer = "auto"    // in the form that the client understands
	AnswerText    Answer = "text"    // a line of text
	AnswerJSON    Answer = "json"    // the JSON document
	AnswerProblem Answer = "problem" // the JSON document as problem details
	AnswerJSONRPC Answer = "jsonrpc" // in JSON-RPC's form to its requests, else a line of text
	AnswerNone    Answer = "none"    // without a body
	AnswerError   Answer = "error"   // by Caddy's error routes
)

// answers are those that can be written.
var answers = []Answer{AnswerAuto, AnswerText, AnswerJSON, AnswerProblem, AnswerJSONRPC, AnswerNone, AnswerError}

// AnswersHint says which values the option has.
func AnswersHint() string {
	names := make([]string, 0, len(answers))
	for _, a := range answers {
		names = append(names, string(a))
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// IsKnown reports whether the answer exists.
func (a Answer) IsKnown() bool { return a == AnswerDefault || slices.Contains(answers, a) }

// Form returns the form of a refusal; nil if the answer is an error, or if the client has left.
func (a Answer) Form(q Request, r Refusal) *Form {
	if !r.isRead() && a != AnswerDefault && a != AnswerAuto {
		return nil
	}
	switch a {
	case AnswerText:
		return &text
	case AnswerJSON:
		return readAccept(q.Header["Accept"]).document()
	case AnswerProblem:
		return &problem
	case AnswerJSONRPC:
		return callForm(q, r, isOfMCP(q))
	case AnswerNone:
		return &none
	case AnswerError:
		return nil
	}
	return recognize(q, r)
}

// ReadsCall reports whether the form of a refused POST depends on the call in its body, by the head of the request. Other
// requests have no calls.
func (a Answer) ReadsCall(q Request, r Refusal) bool {
	if causes[r.Cause].rpc == 0 || mediaType(only(q.Header["Content-Type"])) != callType {
		return false
	}
	switch a {
	case AnswerJSONRPC:
		return true
	case AnswerAuto, AnswerDefault:
		return isOfMCP(q) && !isConnect(q)
	}
	return false
}
