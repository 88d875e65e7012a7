package jsonbody

// Value is what a path of a request's body has. The zero value is an absent one.
type Value struct {
	kind   Kind
	reason Reason
	text   string
}

// Kind says what a [Value] is.
type Kind uint8

// The kinds of values.
const (
	KindAbsent     Kind = iota // there is nothing, null or an object
	KindUnreadable             // applications may read different values, see [Value.Reason]
	KindString
	KindNumber
	KindWord // true or false
)

// Kind returns what the value is.
func (v Value) Kind() Kind { return v.kind }

// Text returns a string as it was meant, without escapes; true or false; or a number in its only form: digits, with
// a point where it is no whole number, without an exponent. 1, 1.0 and 1e0 are 1, and -0 is 0. The text of an absent
// and of an unreadable value is empty.
func (v Value) Text() string { return v.text }

// Reason returns why an unreadable value is; of any other value it is [ReasonNone].
func (v Value) Reason() Reason { return v.reason }

// unreadable returns a value that is not read for a reason.
func unreadable(reason Reason) Value { return Value{kind: KindUnreadable, reason: reason} }

// Reason says why a body, or a value of one, is unreadable.
type Reason uint8

// The reasons. The first ones are of a whole body, which has no value then.
const (
	ReasonNone          Reason = iota
	ReasonSyntax               // the body is not one document of RFC 8259, or it is cut off
	ReasonUTF8                 // a string is no UTF-8
	ReasonByteOrderMark        // the body begins with a byte order mark
	ReasonDepth                // objects and arrays stand in more than 512 levels
	ReasonRepeated             // a name on the path stands more than once, also in another case
	ReasonCase                 // a name on the path stands in another case alone
	ReasonFlat                 // a name at the root is the whole path, such as "user.email"
	ReasonArray                // the path meets an array
	ReasonSurrogate            // a string, or a name beside one on the path, has half a surrogate pair
	ReasonNUL                  // a string, or a name beside one on the path, has U+0000
	ReasonNumber               // parsers round the number in different ways
)

// reasonLabels are the reasons as labels of metrics.
var reasonLabels = [...]string{
	ReasonNone:          "",
	ReasonSyntax:        "syntax",
	ReasonUTF8:          "utf8",
	ReasonByteOrderMark: "byte_order_mark",
	ReasonDepth:         "depth",
	ReasonRepeated:      "repeated_name",
	ReasonCase:          "other_case",
	ReasonFlat:          "flat_name",
	ReasonArray:         "array",
	ReasonSurrogate:     "surrogate",
	ReasonNUL:           "nul",
	ReasonNumber:        "number",
}

// String returns the reason as a label of a metric; [ReasonNone] is empty.
func (r Reason) String() string { return reasonLabels[r] }
