package bodyvalue

import (
	"bytes"
	"math"
	"unicode"
)

// Batch is how many calls a body holds. The zero value is that of a request without a body.
type Batch struct {
	calls  int64
	reason UnreadableReason
}

// callNames are the members of which a call has one at least: the method of JSON-RPC, the query of GraphQL, what stands for a
// query that the server has kept (GraphQL over HTTP, "Persisted Documents"; Apollo's persisted queries; Relay), and the address
// of a request in oRPC's batches. An id is none of them, since responses of JSON-RPC have one too.
var callNames = newCallNames()

func newCallNames() *JSONPlan {
	plan := new(JSONPlan)
	for _, name := range []string{"method", "query", "extensions", "documentId", "doc_id", "url"} {
		plan.AddPath(JSONPath{[]string{name}})
	}
	return plan
}

// AddCalls adds what [JSONReader.Batch] needs.
func (p *JSONPlan) AddCalls() {
	p.calls = true
	p.longest = max(p.longest, callNames.longest)
}

// Batch returns how many calls the body holds. The plan must have [JSONPlan.AddCalls], and the body must have ended.
func (r *JSONReader) Batch() Batch { return Batch{r.batch, r.reason} }

// Calls returns how many calls the body holds: of an array the objects that have a name which some parser may take for one of
// a call, in any case, with other joints, within white space or escaped, whatever its value. One object is one call, however
// often it has such names. Arrays within the array count as if their elements stood in it, and what stands within an object
// counts nothing. It is 1 of any other document, and of an array without calls, and n if the body is unreadable: the reason says
// why.
func (b Batch) Calls(n int64) (int64, UnreadableReason) {
	if b.reason != ReasonNone {
		return n, b.reason
	}
	return max(1, b.calls), ReasonNone
}

// beginMember has the names of the object that has just begun be looked at if it is a member of a batch: nothing but arrays is
// around it.
func (r *JSONReader) beginMember() {
	around := r.depth - 1
	for _, isArray := range r.arrays[:] {
		if around < 64 {
			if mask := uint64(1)<<around - 1; isArray&mask == mask {
				r.member = r.depth
			}
			return
		}
		if isArray != math.MaxUint64 {
			return
		}
		around -= 64
	}
}

// wholeNameOfMember counts a batch's member as [JSONReader.nameOfMember] does, by a name that stands in one piece without escapes. Most
// are told apart at once.
func (r *JSONReader) wholeNameOfMember(name []byte, ascii bool) {
	switch {
	case len(name) < len("url"): // the shortest one; no other case or joint makes it shorter
	case len(name) < len("query") && ascii && name[0]|0x20 != 'u' && name[1]|0x20 != 'u': // of a joint or a blank there is one at most
	case string(name) == "method", string(name) == "query", string(name) == "url":
		r.countCall()
	default:
		longest := min(len(name), r.plan.longest)
		r.nameOfMember(name[:longest], ascii, longest < len(name), hasOuterSpace(name))
	}
}

// nameOfMember counts a batch's member as a call if the name may be one of a call. A long name is cut. Further names of the
// member are not looked at then.
func (r *JSONReader) nameOfMember(name []byte, ascii, isCut, isSpaced bool) {
	if isSpaced {
		name = bytes.TrimFunc(name, unicode.IsSpace)
	}
	if isSpaced && isCut || callNames.mayHave(name, ascii, isCut) {
		r.countCall()
	}
}

// countCall counts a batch's member.
func (r *JSONReader) countCall() {
	r.batch++
	r.member = 0
}

// mayHave reports whether parsers may take a name, without white space around it, for one at the root.
func (p *JSONPlan) mayHave(name []byte, ascii, isCut bool) bool {
	root, spelled := &p.places[0], spellingOf(name, ascii, isCut)
	if !root.mayHave(&spelled) {
		return false
	}
	var space [256]byte
	if spelled.joints > 0 {
		spelled.joined = appendJoined(space[:0], name)
	}
	for i := range root.children {
		if c := &root.children[i]; spelled.mayBe(c) && p.places[c.id].isNamed(&spelled) {
			return true
		}
	}
	return false
}
