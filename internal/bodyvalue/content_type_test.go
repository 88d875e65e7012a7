package bodyvalue

import (
	"mime"
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

func TestTypeOf(t *testing.T) {
	long := strings.Repeat("A", maxBoundary)
	for _, test := range []struct {
		types    string // separated by |
		format   Format
		reason   UnreadableReason
		boundary string
	}{
		{types: "application/json", format: FormatJSON},
		{types: " Application/JSON\t", format: FormatJSON},
		{types: "application/vnd.api+json", format: FormatJSON},
		{types: "application/problem+JSON; charset=\"UTF-8\"", format: FormatJSON},
		{types: "application/json;charset=utf8", format: FormatJSON},
		{types: "application/json; odata=verbose ; profile=\"https://example.com/a;b.json\"", format: FormatJSON},
		{types: "application/json;", format: FormatJSON},
		{types: "application/json ;; ", format: FormatJSON},
		{types: "application/x-www-form-urlencoded", format: formatURLEncoded},
		{types: "application/x-www-form-urlencoded;charset=UTF-8", format: formatURLEncoded},
		{types: "application/x-www-form-urlencoded; foo=bar", format: formatURLEncoded},
		{types: "multipart/form-data; boundary=A.a_b+c-1", format: formatMultipart, boundary: "A.a_b+c-1"},
		{types: "Multipart/Form-Data;Boundary=\"AaB\"", format: formatMultipart, boundary: "AaB"},
		{types: "multipart/form-data; charset=utf-8; boundary=AaB;", format: formatMultipart, boundary: "AaB"},
		{types: "multipart/form-data; boundary=" + long, format: formatMultipart, boundary: long},
		{types: "multipart/form-data; boundary=xjsonx", format: formatMultipart, boundary: "xjsonx"},

		{types: "", reason: ReasonNoType},
		{types: " \t", reason: ReasonNoType},
		{types: "application/json|application/json", reason: ReasonTypes},
		{types: "application/json, text/plain", reason: ReasonTypes},
		{types: "application/json; a=\",\"", reason: ReasonTypes},
		{types: "text/plain", reason: ReasonType},
		{types: "text/json", reason: ReasonType},
		{types: "multipart/mixed; boundary=AaB", reason: ReasonType},
		{types: "application/+json", reason: ReasonType},
		{types: "application/x+json", reason: ReasonType},
		{types: "application/X-a+json", reason: ReasonType},
		{types: "application/ax+json", format: FormatJSON},
		{types: "application/grpc+json", reason: ReasonType},
		{types: "application/gRPC-web+json; charset=utf-8", reason: ReasonType},
		{types: "application/connect+json", reason: ReasonType},
		{types: "application/json5", reason: ReasonType},
		{types: "application", reason: ReasonType},
		{types: "/json", reason: ReasonType},
		{types: "application/", reason: ReasonType},
		{types: "application/json a=b", reason: ReasonType},
		{types: "application/json; a", reason: ReasonType},
		{types: "application/json; a=", reason: ReasonType},
		{types: "application/json; a =b", reason: ReasonType},
		{types: "application/json; =b", reason: ReasonType},
		{types: "application/json; a=\"b", reason: ReasonType},
		{types: "application/json; a=\"\\\"\"", reason: ReasonType},
		{types: "application/json; a=\"\u00e9\"", reason: ReasonType},
		{types: "application/json; a=b c=d", reason: ReasonType},
		{types: "application/json\u00a0", reason: ReasonType},
		{types: "application/json; x=URLencoded", reason: ReasonType},
		{types: "application/x-www-form-urlencoded+json", reason: ReasonType},
		{types: "application/x-www-form-urlencoded; x=\"application/json\"", reason: ReasonType},
		{types: "application/x-www-form-urlencoded; x=\"multipart/form-data\"; boundary=AaB", reason: ReasonType},
		{types: "application/json; charset=iso-8859-1", reason: ReasonCharset},
		{types: "application/json; charset=\"\"", reason: ReasonCharset},
		{types: "application/json; charset=utf-8; CHARSET=utf-8", reason: ReasonCharset},
		{types: "application/json; x=\"; charset=utf-7\"", reason: ReasonCharset},
		{types: "application/json; charset=utf-8; x=\"charset\"", reason: ReasonCharset},
		{types: "application/json; charset*=utf-8''utf-16", reason: ReasonCharset},
		{types: "multipart/form-data; xcharset=utf-8; boundary=AaB", reason: ReasonBoundary},
		{types: "multipart/form-data; charset=utf-16; boundary=AaB", reason: ReasonCharset},
		{types: "multipart/form-data", reason: ReasonBoundary},
		{types: "multipart/form-data; charset=utf-8", reason: ReasonBoundary},
		{types: "multipart/form-data; boundary=\"\"", reason: ReasonBoundary},
		{types: "multipart/form-data; boundary=A; boundary=A", reason: ReasonBoundary},
		{types: "multipart/form-data; boundary=A; x=y", reason: ReasonBoundary},
		{types: "multipart/form-data; boundary=A'B", reason: ReasonBoundary},
		{types: "multipart/form-data; boundary=\"A B\"", reason: ReasonBoundary},
		{types: "multipart/form-data; boundary=A" + long, reason: ReasonBoundary},
		{types: "multipart/form-data; boundary*=AaB", reason: ReasonBoundary},
	} {
		got := ContentTypeOf(http.Header{"Content-Type": strings.Split(test.types, "|")})
		want := ContentType{test.format, test.reason, test.boundary}
		assert.Equal(t, got, want, "%q", test.types)
		assert.Equal(t, got.Format() == FormatNone, got.Reason() != ReasonNone, "%q has no format", test.types)
	}
	assert.Equal(t, ContentTypeOf(nil).Reason(), ReasonNoType, "the reason of no header")
	encoded := http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}
	assert.Equal(t, ContentTypeOf(encoded).Reason(), ReasonEncoding, "the reason of a coding")
}

// FuzzTypeOf compares with the standard library.
func FuzzTypeOf(f *testing.F) {
	for _, seed := range []string{
		"application/json; charset=utf-8", "application/a+json;;a=\"b;c\"", "multipart/form-data; boundary=\"a\"; charset=UTF-8",
		"application/x-www-form-urlencoded ; x=y;", "application/json; a*0=b; a*1=c", "multipart/form-data; BOUNDARY=a",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := ContentTypeOf(http.Header{"Content-Type": {text}})
		if got.Format() == FormatNone || strings.Contains(text, "*") {
			t.Skip()
		}
		mediaType, parameters, err := mime.ParseMediaType(text)
		if err != nil { // a parameter twice, or two semicolons, which say nothing of the values
			return
		}
		assert.Equal(t, formatOf([]byte(mediaType)), got.Format(), "the format of %q", text)
		charset, ok := parameters["charset"]
		assert.ErrorIf(t, ok && !isUTF8([]byte(charset)), "%q has the charset %q", text, charset)
		assert.ErrorIf(t, got.Format() == formatMultipart && parameters["boundary"] != got.boundary,
			"%q has the boundary %q, not %q", text, parameters["boundary"], got.boundary)
	})
}
