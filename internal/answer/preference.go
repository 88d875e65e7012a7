package answer

import (
	"slices"
	"strings"
)

// Preference is the option that says how refusals are answered.
type Preference string

// The answers. An answer that is written out goes before error routes.
const (
	AnswerDefault Preference = ""        // by an error route that can handle the refusal; else as auto
	answerAuto    Preference = "auto"    // in the form that the client understands
	answerText    Preference = "text"    // a line of text
	answerJSON    Preference = "json"    // the JSON document
	answerProblem Preference = "problem" // the JSON document as problem details
	answerJSONRPC Preference = "jsonrpc" // in JSON-RPC's form to its requests, else a line of text
	answerNone    Preference = "none"    // without a body
	answerError   Preference = "error"   // by Caddy's error routes
)

// answers are those that can be written.
var answers = []Preference{answerAuto, answerText, answerJSON, answerProblem, answerJSONRPC, answerNone, answerError}

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
func (a Preference) IsKnown() bool { return a == AnswerDefault || slices.Contains(answers, a) }

// Form returns the form of a refusal; nil if the answer is an error, or if the client has left.
func (a Preference) Form(q Request, r Refusal) *Form {
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
func (a Preference) ReadsCall(q Request, r Refusal) bool {
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
