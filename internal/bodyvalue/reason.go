package bodyvalue

import "net/http"

// Reason says why a body, or a value of one, is unreadable.
type Reason uint8

// The reasons.
const (
	ReasonNone Reason = iota

	ReasonNoType   // the request has no Content-Type
	ReasonTypes    // the request has several, or a list
	ReasonType     // the type is neither JSON nor a form, or not as applications agree on it
	ReasonCharset  // the charset is not UTF-8, is given twice, or stands in another parameter
	ReasonEncoding // the request has a Content-Encoding
	ReasonBoundary // the boundary of multipart/form-data is missing, or parsers read different ones

	ReasonSize // the body is larger than is read; for those who read bodies

	ReasonByte         // urlencoded: a byte that browsers encode
	ReasonStart        // urlencoded: it begins as JSON, a comment or a query does
	ReasonPercent      // urlencoded: % without two hexadecimal digits
	ReasonSemicolon    // urlencoded: a semicolon, which separates fields for some
	ReasonUTF8         // a name or a value is no UTF-8
	ReasonCharsetField // a field _charset_ may change how the others are decoded
	ReasonDelimiter    // multipart: text before or behind, the boundary elsewhere, or the last one is missing
	ReasonParts        // multipart: more than 1,000 parts
	ReasonHead         // multipart: a part's head is folded, has control characters, or a field that is not known
	ReasonDisposition  // multipart: no Content-Disposition in the one form that all read
	ReasonPartType     // multipart: a part's type, for which some decode or unpack it

	ReasonQuery    // a parameter of the query may replace the field
	ReasonConflict // two fields may be the one
	ReasonPrefix   // the field is a list or an object for some
	ReasonFile     // the field is a file

	ReasonControl       // the value has a control character other than tab, CR, LF
	ReasonByteOrderMark // the value has U+FEFF
	ReasonNoncharacter  // the value has a noncharacter, such as U+FFFF
	ReasonBlank         // the value has a blank at an end, where it counts
)

// reasonLabels are the reasons as labels of metrics.
var reasonLabels = [...]string{
	ReasonNone:          "",
	ReasonNoType:        "no_type",
	ReasonTypes:         "several_types",
	ReasonType:          "type",
	ReasonCharset:       "charset",
	ReasonEncoding:      "content_encoding",
	ReasonBoundary:      "boundary",
	ReasonSize:          "size",
	ReasonByte:          "raw_byte",
	ReasonStart:         "first_byte",
	ReasonPercent:       "percent",
	ReasonSemicolon:     "semicolon",
	ReasonUTF8:          "utf8",
	ReasonCharsetField:  "charset_field",
	ReasonDelimiter:     "delimiter",
	ReasonParts:         "parts",
	ReasonHead:          "part_head",
	ReasonDisposition:   "disposition",
	ReasonPartType:      "part_type",
	ReasonQuery:         "query",
	ReasonConflict:      "conflict",
	ReasonPrefix:        "prefix",
	ReasonFile:          "file",
	ReasonControl:       "control",
	ReasonByteOrderMark: "byte_order_mark",
	ReasonNoncharacter:  "noncharacter",
	ReasonBlank:         "blank",
}

// String returns the reason as a label of a metric; [ReasonNone] is empty.
func (r Reason) String() string { return reasonLabels[r] }

// Status returns the status of a refusal for the reason: 415 for what the header says, 413 for the size, 400 for
// anything else. That of [ReasonNone] is 0.
func (r Reason) Status() int {
	switch r {
	case ReasonNone:
		return 0
	case ReasonNoType, ReasonTypes, ReasonType, ReasonCharset, ReasonEncoding, ReasonBoundary:
		return http.StatusUnsupportedMediaType
	case ReasonSize:
		return http.StatusRequestEntityTooLarge
	default:
		return http.StatusBadRequest
	}
}
