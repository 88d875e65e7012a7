package bodyvalue

// Call is a call of JSON-RPC 2.0 (https://www.jsonrpc.org/specification), such as MCP sends. The zero value is none.
type Call struct {
	kind   CallKind
	method string
	id     []byte
}

// CallKind says what a [Call] is.
type CallKind uint8

// The kinds of calls.
const (
	CallNone         CallKind = iota // no call, an ambiguous one, or one whose id cannot be told: null, or too long
	CallRequest                      // a request with an id
	callNotification                 // a request without an id, which has no answer
	callBatch                        // an array
)

// Bounds of calls.
const (
	MaxCall   = 64 << 10 // bytes of a body
	maxCallID = 256      // bytes of an id, with its quotes
)

// Kind returns what the call is.
func (c Call) Kind() CallKind { return c.kind }

// Method returns the method of a request or a notification.
func (c Call) Method() string { return c.method }

// ID returns the id of a request, byte for byte as it stands in the body, with the quotes of a string. It is a part of
// the body.
func (c Call) ID() []byte { return c.id }

// The members of a call, by their number in [callPlan].
const (
	callVersion = iota
	callMethod
	callID
)

// callPlan reads calls.
var callPlan = newCallPlan()

func newCallPlan() *JSONPlan {
	plan := new(JSONPlan)
	for _, name := range []string{callVersion: "jsonrpc", callMethod: "method", callID: "id"} {
		plan.AddPath(JSONPath{[]string{name}})
	}
	return plan
}

// ReadCall reads a body as a call. A body above [MaxCall] is none. So is one whose members a server may read in another
// way: see [JSONReader].
func ReadCall(body []byte) Call {
	if len(body) > MaxCall {
		return Call{}
	}
	r := callPlan.readRequest(body)
	if r.isArray() {
		return Call{kind: callBatch}
	}
	version, isVersion := r.string(callVersion)
	method, isMethod := r.string(callMethod)
	if !isVersion || version != "2.0" || !isMethod {
		return Call{}
	}
	from, to, isNamed, ok := r.span(callID)
	switch {
	case !isNamed:
		return Call{kind: callNotification, method: method}
	case !ok || to-from > maxCallID:
		return Call{}
	}
	return Call{kind: CallRequest, method: method, id: body[from:to:to]}
}

// string returns the string that a path has. It is false for anything else.
func (r *JSONReader) string(number int) (text string, ok bool) {
	content, text, reason := r.read(number)
	return text, content == contentString && reason == ReasonNone
}
