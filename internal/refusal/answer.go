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
	answerAuto    Answer = "auto"    // in the form that the client understands
	answerText    Answer = "text"    // a line of text
	answerJSON    Answer = "json"    // the JSON document
	answerProblem Answer = "problem" // the JSON document as problem details
	answerJSONRPC Answer = "jsonrpc" // in JSON-RPC's form to its requests, else a line of text
	answerNone    Answer = "none"    // without a body
	answerError   Answer = "error"   // by Caddy's error routes
)

// answers are those that can be written.
var answers = []Answer{answerAuto, answerText, answerJSON, answerProblem, answerJSONRPC, answerNone, answerError}

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
	if !r.isRead() && a != AnswerDefault && a != answerAuto {
		return nil
	}
	switch a {
	case answerText:
		return &text
	case answerJSON:
		return readAccept(q.Header["Accept"]).document()
	case answerProblem:
		return &problem
	case answerJSONRPC:
		return callForm(q, r, isOfMCP(q))
	case answerNone:
		return &none
	case answerError:
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
	case answerJSONRPC:
		return true
	case answerAuto, AnswerDefault:
		return isOfMCP(q) && !isConnect(q)
	}
	return false
}
