package bodyvalue

import "net/http"

// UnreadableReason says why a body, or a value of one, is unreadable.
type UnreadableReason uint8

// The reasons.
const (
	ReasonNone UnreadableReason = iota

	// Those of the request's header.

	ReasonNoType   // the request has no Content-Type
	ReasonTypes    // the request has several, or a list
	ReasonType     // the type is none that has the value, or not as applications agree on it
	ReasonCharset  // the charset is not UTF-8, is given twice, or stands in another parameter
	ReasonEncoding // the request has a Content-Encoding
	ReasonBoundary // the boundary of multipart/form-data is missing, or parsers read different ones

	// Those of a body that is not read.

	ReasonSize     // the body is larger than is read
	ReasonStreamed // the body is exchanged as it comes
	ReasonConsumed // another handler has read of the body

	// Those of a whole body.

	ReasonSyntax        // JSON: the body is not one document of RFC 8259, or it is cut off
	ReasonDepth         // JSON: objects and arrays stand in more than 512 levels
	ReasonByteOrderMark // JSON: the body begins with a byte order mark; or a text has U+FEFF
	ReasonUTF8          // a name or a text is no UTF-8
	ReasonByte          // urlencoded: a byte that browsers encode; a second "=" is one
	ReasonStart         // urlencoded: it begins as JSON, a comment or a query does
	ReasonPercent       // urlencoded: % without two hexadecimal digits
	ReasonSemicolon     // urlencoded: a semicolon, which separates fields for some
	ReasonCharsetField  // a field _charset_ may change how the others are decoded
	ReasonDelimiter     // multipart: text before or behind, the boundary or its begin elsewhere, or the last one is missing
	ReasonParts         // multipart: more than 1,000 parts
	ReasonHead          // multipart: a part's head is folded, above 8 KiB, has control characters, or a field that is not known
	ReasonDisposition   // multipart: no Content-Disposition in the one form that all read
	ReasonPartType      // multipart: a part's type, for which some decode or unpack it

	// Those of a name or a path.

	ReasonQuery    // a parameter of the query may replace the value
	ReasonRepeated // JSON: a name on the path stands more than once, also in another case or with other joints
	ReasonCase     // JSON: a name on the path stands in another case, with other joints, or within white space, alone
	ReasonFlat     // JSON: a name at the root is the whole path, such as "user.email", or "email" without "user"
	ReasonArray    // JSON: the path meets an array
	ReasonConflict // form: two fields may be the one
	ReasonPrefix   // form: the field is a list, an object, or a member of one for some
	ReasonFile     // form: the field is a file

	// Those of a text or a number.

	ReasonSurrogate    // JSON: a string, or a name beside one on the path, has half a surrogate pair
	ReasonNUL          // JSON: a string, or a name beside one on the path, has U+0000
	ReasonNumber       // JSON: parsers round the number in different ways
	ReasonControl      // the text has a control character other than tab, CR, LF
	reasonNoncharacter // the text has a noncharacter, such as U+FFFF
	reasonBlank        // the text has a blank at an end, where it counts
	reasonLong         // the text is too long for a key that is folded

	// Those of a request's header, cookies, query, path and host.

	ReasonSeveral     // a header, a cookie or a parameter is given several times
	ReasonSimilarName // a cookie or a parameter is not there, but one whose name some take for it
	ReasonEnds        // a header has a byte at an end that some drop
	ReasonCredential  // a credential has a byte that some cut at, join by or drop
	ReasonJWT         // a token begins as a JWT and is none in its usual form
	ReasonBasic       // a credential of Basic is not in its usual form
	reasonCredentials // two places of the request have different credentials
	ReasonCookieByte  // a cookie has a byte that some cut at or drop
	ReasonFragment    // a parameter has a "#", at which some end the query
	ReasonParameters  // the query has more than 10,000 parameters
	ReasonPath        // the path does not begin with a slash, or servers that decode it again see another one
	ReasonHost        // the host has a character that no name has

	reasons // how many there are
)

// reasonLabels are the reasons as labels of metrics.
var reasonLabels = [reasons]string{
	ReasonNone:          "",
	ReasonNoType:        "no_type",
	ReasonTypes:         "several_types",
	ReasonType:          "type",
	ReasonCharset:       "charset",
	ReasonEncoding:      "content_encoding",
	ReasonBoundary:      "boundary",
	ReasonSize:          "size",
	ReasonStreamed:      "streamed",
	ReasonConsumed:      "consumed",
	ReasonSyntax:        "syntax",
	ReasonDepth:         "depth",
	ReasonByteOrderMark: "byte_order_mark",
	ReasonUTF8:          "utf8",
	ReasonByte:          "raw_byte",
	ReasonStart:         "first_byte",
	ReasonPercent:       "percent",
	ReasonSemicolon:     "semicolon",
	ReasonCharsetField:  "charset_field",
	ReasonDelimiter:     "delimiter",
	ReasonParts:         "parts",
	ReasonHead:          "part_head",
	ReasonDisposition:   "disposition",
	ReasonPartType:      "part_type",
	ReasonQuery:         "query",
	ReasonRepeated:      "repeated_name",
	ReasonCase:          "other_case",
	ReasonFlat:          "flat_name",
	ReasonArray:         "array",
	ReasonConflict:      "conflict",
	ReasonPrefix:        "prefix",
	ReasonFile:          "file",
	ReasonSurrogate:     "surrogate",
	ReasonNUL:           "nul",
	ReasonNumber:        "number",
	ReasonControl:       "control",
	reasonNoncharacter:  "noncharacter",
	reasonBlank:         "blank",
	reasonLong:          "long",
	ReasonSeveral:       "repeated",
	ReasonSimilarName:   "similar_name",
	ReasonEnds:          "ends",
	ReasonCredential:    "credential",
	ReasonJWT:           "jwt",
	ReasonBasic:         "basic",
	reasonCredentials:   "two_credentials",
	ReasonCookieByte:    "cookie_byte",
	ReasonFragment:      "fragment",
	ReasonParameters:    "parameters",
	ReasonPath:          "path",
	ReasonHost:          "host",
}

// String returns the reason as a label of a metric; [ReasonNone] is empty.
func (r UnreadableReason) String() string { return reasonLabels[r] }

// reasonTexts say what is wrong, and where it is not plain what to write or to send.
var reasonTexts = [reasons]string{
	ReasonNoType:        "the request has no Content-Type",
	ReasonTypes:         "the request has several Content-Types",
	ReasonType:          "its Content-Type has none: write {json.<path>} for application/json, {form.<name>} for a form",
	ReasonCharset:       "its charset is not UTF-8, or stands twice",
	ReasonEncoding:      "it has a Content-Encoding: let clients send it uncompressed",
	ReasonBoundary:      "the boundary of its Content-Type is missing or unusual",
	ReasonSize:          "it is larger than the option body allows",
	ReasonStreamed:      "it is exchanged as it comes",
	ReasonConsumed:      "a handler in front has read it: put that one behind the limit",
	ReasonSyntax:        "it is not one document of JSON",
	ReasonDepth:         "its JSON has more than 512 levels",
	ReasonByteOrderMark: "it has a byte order mark",
	ReasonUTF8:          "it is not UTF-8",
	ReasonByte:          "its form has a character that browsers encode",
	ReasonStart:         "its form begins as JSON does: such clients have to send Content-Type: application/json, for {json.<path>}",
	ReasonPercent:       "its form has % without two hexadecimal digits",
	ReasonSemicolon:     "its form has a semicolon, which separates fields for some",
	ReasonCharsetField:  "its form has the field _charset_",
	ReasonDelimiter:     "its form has text around its parts, or the boundary elsewhere, or is cut off",
	ReasonParts:         "its form has more than 1,000 parts",
	ReasonHead:          "a part of its form has an unusual head, or one above 8 KiB",
	ReasonDisposition:   "a part of its form has an unusual Content-Disposition",
	ReasonPartType:      "a field of its form has a type that some decode",
	ReasonQuery:         "a parameter of the query has the name too",
	ReasonRepeated:      "a name on the path stands there twice",
	ReasonCase:          "a name on the path stands there in another spelling, such as userId or User_ID for user_id: write the path so",
	ReasonFlat:          "a name at the root may be the value: the whole path, where \\. is a dot in a name, or its second name without the first",
	ReasonArray:         "an array is on the path, and no value is read within one",
	ReasonConflict:      "two fields may be the one",
	ReasonPrefix:        "the field is a list or an object for some, or the member of one",
	ReasonFile:          "the field is a file",
	ReasonSurrogate:     "a text has half a surrogate pair",
	ReasonNUL:           "a text has U+0000",
	ReasonNumber:        "parsers round the number in different ways",
	ReasonControl:       "the text has a control character",
	reasonNoncharacter:  "the text has a noncharacter",
	reasonBlank:         "the text has a blank at an end",
	reasonLong:          "the text is longer than 64 KiB",
	ReasonSeveral:       "a header, a cookie or a query parameter is given several times in the request",
	ReasonSimilarName:   "a cookie or a parameter of another spelling is there alone, which some take for it",
	ReasonEnds:          "the header has a character at an end that some drop",
	ReasonCredential:    "the credential has a blank, or one of \" , ; =, at which some cut it",
	ReasonJWT:           "the token is no JWT in its usual form",
	ReasonBasic:         "the credential of Basic is not in its usual form",
	reasonCredentials:   "two places of the request have different credentials",
	ReasonCookieByte:    "the cookie has a character at which some cut it",
	ReasonFragment:      "the parameter has a #, at which some end the query",
	ReasonParameters:    "the query has more than 10,000 parameters",
	ReasonPath:          "the path does not begin with a slash, or servers that decode it again see another one",
	ReasonHost:          "the host has a character that no name has",
}

// Text says what is wrong with a body, in words; empty for [ReasonNone].
func (r UnreadableReason) Text() string { return reasonTexts[r] }

// IsOfBody reports whether the reason concerns the request's body, not another part of the request.
func (r UnreadableReason) IsOfBody() bool { return r < ReasonSeveral }

// Status returns the status of a refusal for the reason: 415 for what the header says, 413 for the size, 400 for
// anything else. That of [ReasonNone] is 0.
func (r UnreadableReason) Status() int {
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
