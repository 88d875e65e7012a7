package bodyvalue

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

var (
	urlEncoded = ContentTypeOf(http.Header{"Content-Type": {"application/x-www-form-urlencoded"}})
	multiparts = ContentTypeOf(http.Header{"Content-Type": {"multipart/form-data; boundary=AaB"}})
)

// formValueText shows a value in the tables of these tests.
func formValueText(v Value) string {
	switch v.Kind() {
	case KindText:
		return "=" + v.Text()
	case KindUnreadable:
		return v.Reason().String()
	default:
		return "absent"
	}
}

func TestPlan_Read_urlencoded(t *testing.T) {
	for _, test := range []struct{ body, want string }{
		{"", "absent"},
		{"x=1", "absent"},
		{"email", "="},
		{"email=", "="},
		{"&&email=a%3Db&", "=a=b"},
		{"email=a=b", "raw_byte"},
		{"email=a=", "raw_byte"},
		{"=email=a", "raw_byte"},
		{"==email", "raw_byte"},
		{"email=a&=email", "conflict"},
		{"email=a&x=b=c&=y", "=a"},
		{"email=a+b%2B%26%3d%C3%B3", "=a b+&=ó"},
		{"%65mail=a", "=a"},
		{"%5b%65mail%5D=a", "=a"},
		{"x=1& email=a", "=a"},
		{"x=%00%EF%BB%BF%EF%BF%BF&email=a", "=a"},
		{strings.Repeat("x=1&", 1000) + "email=a", "=a"},
		{"email=a&email_confirmation=b&e=c&emails=d&emai=e", "=a"},
		{"email=a&EMA%C4%B0L=b", "conflict"}, // lower case makes İ an i
		{"email=a&ema%C4%B1l=b", "conflict"}, // upper case makes the dotless ı an I
		{"email=a&ema%C3%AFl=b", "=a"},
		{"email=a&email=a", "conflict"},
		{"email=a&email[]=b", "conflict"},
		{"email[0]=a", "prefix"},
		{"email.x=a", "prefix"},
		{"model.email=b", "prefix"},
		{"email=a&model.Email=b", "conflict"},
		{"model%5bemail%5d=b&email=a", "conflict"},
		{"m_1.email.x=b", "prefix"},
		{"x.model.email=b&.x=1&x=.email&x=%5Bemail&x_email=c&email=a", "=a"},
		{"email%00x=a", "prefix"},
		{"_charset_=utf-8&email=a", "charset_field"},
		{"%5FChar%C5%BFet_=utf-8&email=a", "charset_field"},
		{"charset=utf-8&email=a", "=a"},
		{"email=a\n", "raw_byte"},
		{"email=a\x7f", "raw_byte"},
		{"email=b\u00f3b", "raw_byte"},
		{"\ufeffemail=a", "raw_byte"},
		{"email=a;x=1", "semicolon"},
		{"x=%&email=a", "percent"},
		{"x=%4", "percent"},
		{"x=%4g", "percent"},
		{"x=%C3%", "utf8"},
		{"%C3=%B3&email=a", "utf8"},
		{"x=%C3&%B3=&email=a", "utf8"},
		{"email=%ED%A0%80", "utf8"},
		{"email=%C0%AE", "utf8"},
		{"x=%80&email=a", "utf8"},
		{"email=%F4%90%80%80", "utf8"},
		{"email=%EF%BF%BD", "=\ufffd"},
		{"email=%00", "control"},
		{"email=a%7F", "control"},
		{"email=a%C2%85", "control"},
		{"email=a%EF%BB%BF", "byte_order_mark"},
		{"email=%EF%B7%90", "noncharacter"},
		{"email=%F4%8F%BF%BF", "noncharacter"},
		{"email=%09a%0D%0A", "=\ta\r\n"},
		{`  {"a":"&email=a&"}`, "first_byte"},
		{`[{"a":"&email=a&"}]`, "first_byte"},
		{`"&email=a&"`, "first_byte"},
		{`/**/{"a":"&email=a&"}`, "first_byte"},
		{`?email=a`, "first_byte"},
		{`#email=a`, "first_byte"},
		{`+{"a":"&email=a&"}`, "=a"}, // no JSON begins with +
	} {
		assert.Equal(t, formValueText(readOne(t, "email", urlEncoded, test.body)), test.want, "email in %q", test.body)
	}
}

// readOne returns the value of one name.
func readOne(t testing.TB, name string, contentType ContentType, body string) Value {
	t.Helper()
	var plan FormPlan
	plan.Add(assert.NoError(ParseFieldName(name))(t))
	return plan.Read(contentType, []byte(body))[0]
}

// TestIsPrintable has each byte at each place of a body.
func TestIsPrintable(t *testing.T) {
	for c := range 256 {
		for place := range 19 {
			for _, fill := range "x ~" {
				body := bytes.Repeat([]byte(string(fill)), 19)
				body[place] = byte(c)
				assert.Equal(t, isPrintable(body), c >= ' ' && c <= '~', "byte %#x at place %d of %q", c, place, body)
			}
		}
	}
}

// formPart returns the body of one part, of which the head and the data are given.
func formPart(head, data string) string { return "--AaB\r\n" + head + "\r\n\r\n" + data + "\r\n" }

func TestPlan_Read_multipart(t *testing.T) {
	const end, email, other = "--AaB--\r\n", `Content-Disposition: form-data; name="email"`, `Content-Disposition: form-data; name="x"`
	field := func(head string) string { return formPart(head, "a") + end }
	for _, test := range []struct{ body, want string }{
		{end, "absent"},
		{"--AaB--", "absent"},
		{field(other), "absent"},
		{field(email), "=a"},
		{formPart(email, "") + end, "="},
		{formPart(email, "\r\n") + end, "=\r\n"},
		{formPart(email, "--") + end, "=--"},
		{formPart(email, "a\r\n-") + end, "=a\r\n-"},
		{formPart(email, "a\r\n--") + end, "delimiter"},
		{formPart(email, "a\n--Aa") + end, "delimiter"},
		{formPart(email, "\r\n--Aa") + end, "delimiter"},
		{formPart(email, "a\r\n--a") + end, "=a\r\n--a"},
		{formPart(email, "a\r\n--\r\nb") + end, "=a\r\n--\r\nb"},
		{formPart(email, "a") + "--AaB--", "=a"},
		{formPart(other, "--aAb\r\n--") + formPart(email, "a\r\n\r\nb") + end, "=a\r\n\r\nb"},
		{formPart(other+`; filename="`+"\u00fc;.png"+`"`+"\r\nContent-Type: image/png", "\xff\x00\r\n\n--Aa") + field(email), "=a"},
		{strings.Repeat(formPart(other, ""), maxParts-1) + field(email), "=a"},
		{strings.Repeat(formPart(other, ""), maxParts) + field(email), "parts"},

		{"", "delimiter"},
		{"--AaB", "delimiter"},
		{"--AaB\r\n", "delimiter"},
		{"\r\n" + field(email), "delimiter"},
		{"x--AaB--", "delimiter"},
		{"xxAaB--", "delimiter"},
		{formPart(email, "a"), "delimiter"},
		{field(email) + "\r\n", "delimiter"},
		{field(email) + field(email), "delimiter"},
		{formPart(email, "a--AaBb") + end, "delimiter"},
		{formPart(email, "AaB") + end, "delimiter"},
		{formPart(email, "a\n--AaB\nb") + end, "delimiter"},
		{formPart(email, "a\r\n--AaBx\r\nb") + end, "delimiter"},
		{formPart(email, "a\r\n--AaB \r\nb") + end, "delimiter"},
		{formPart(email, "a\r\n--AaB--\r\nb") + end, "delimiter"},
		{field(other + `; filename="AaB"`), "delimiter"},
		{"--AaB\r\n" + email + "\r\n\r\n" + end, "part_head"}, // the empty line's end is not one of the delimiter's own
		{"--AaB\r\n--AaB--\r\n", "delimiter"},
		{"--AaB\r\n\r\n--AaB--\r\n", "part_head"},
		{"--AaB\r\n\r\n\r\n--AaB--\r\n", "part_head"},
		{"--AaB\r\n\r\n\r\na\r\n--AaB--\r\n", "part_head"},

		{field("Content-Type: text/plain"), "disposition"},
		{field(email + "\r\n" + email), "part_head"},
		{field(email + "\r\nX-A: b"), "part_head"},
		{field(email + "\r\nContent-Type"), "part_head"},
		{field("Content-Disposition: form-data;\r\n name=\"email\""), "disposition"},
		{field(email + "\r\n folded"), "part_head"},
		{field(email + "\nX: b"), "part_head"},
		{field("Content-Di\u017fposition: form-data; name=\"email\""), "part_head"},
		{field("Content-Disposition : form-data; name=\"email\""), "part_head"},
		{field("content-disposition:form-data; name=\"email\""), "=a"},
		{field("Content-Disposition:  form-data; name=\"email\""), "disposition"},
		{field("Content-Disposition: form-data; name=email"), "disposition"},
		{field("Content-Disposition: form-data; name=\"email"), "disposition"},
		{field("Content-Disposition: form-data; name*=utf-8''email"), "disposition"},
		{field(email + "; name*=utf-8''x"), "disposition"},
		{field(email + `; filename="a*"`), "disposition"},
		{field(email + `;`), "disposition"},
		{field(email + ` `), "disposition"},
		{field(email + `; filename="a`), "disposition"},
		{field(email + `; filename="`), "disposition"},
		{field(email + `; filename=`), "disposition"},
		{field(email + `; filename="a"b"`), "disposition"},
		{field(email + `; filename="a"; x="b"`), "disposition"},
		{field(email + `; filename="NAME =b"`), "disposition"},
		{field(email + `; filename="ame=b"`), "file"},
		{field(email + `; filename=""`), "file"},
		{field(`Content-Disposition: form-data; name="e;mail"`), "disposition"},
		{field(`Content-Disposition: form-data; name="e=mail"`), "disposition"},
		{field(`Content-Disposition: form-data; name="email,"`), "disposition"},
		{field(`Content-Disposition: form-data; name="e'mail"`), "disposition"},
		{field(`Content-Disposition: form-data; name="e\\mail"`), "disposition"},
		{field("Content-Disposition: form-data; name=\"\u0085email\""), "disposition"},
		{field("Content-Disposition: form-data; name=\"\tx\""), "part_head"},
		{field("Content-Disposition: form-data; name=\"\xffx\""), "disposition"},
		{field(`Content-Disposition: form-data; name=""`), "absent"},
		{field(`Content-Disposition: form-data; name="_charset_"`), "charset_field"},

		{field("Content-Type: text/plain; charset=UTF-8\r\n" + email), "=a"},
		{field(email + "\r\ncontent-type: text/plain;charset=\"utf-8\""), "=a"},
		{field(email + "\r\nContent-Type: text/plain; charset=iso-8859-1"), "part_type"},
		{field(email + "\r\nContent-Type: text/plain; format=flowed"), "part_type"},
		{field(email + "\r\nContent-Type: text/Plain"), "part_type"},
		{field(email + "\r\nContent-Type: application/json"), "part_type"},
		{field(email + "\r\nContent-Type: "), "part_type"},
		{field(email + "\r\nContent-Type: text"), "part_type"},
		{field(other+`; filename="f"`+"\r\nContent-Type: multipart/mixed") + end, "part_type"},
		{field(other+`; filename="f"`+"\r\nContent-Type: message/rfc822") + end, "part_type"},
		{field(other+`; filename="f"`+"\r\nContent-Type: a/b; c=\"Multipart/mixed\"") + end, "part_type"},
		{field(other + `; filename="f"` + "\r\nContent-Type: application/json; charset=utf-16"), "absent"},
		{field(email + "\r\nContent-Length: 1"), "=a"},
		{field(email + "\r\nContent-Length: 2"), "part_head"},
		{field(email + "\r\nContent-Length: 01"), "part_head"},

		{formPart(email, "\xff") + end, "utf8"},
		{formPart(other, "\xff") + field(email), "utf8"},
		{formPart(email, "\x00") + end, "control"},
		{formPart(email, "\u202e\u00a0") + end, "=\u202e\u00a0"},
		{formPart(email, "a") + field(email), "conflict"},
		{formPart(email, "a") + field(email+`; filename="f"`), "conflict"},
		{field(`Content-Disposition: form-data; name="email[x]"`), "prefix"},
	} {
		assert.Equal(t, formValueText(readOne(t, "email", multiparts, test.body)), test.want, "email in %.200q", test.body)
	}
}

// TestPart_transferEncoding reads the encodings without a body.
func TestPart_transferEncoding(t *testing.T) {
	for _, test := range []struct {
		encoding string
		want     UnreadableReason
	}{
		{"7bit", ReasonNone},
		{"8BIT", ReasonNone},
		{"binary", ReasonNone},
		{"", ReasonHead},
		{"base64", ReasonHead},
		{"quoted-printable", ReasonHead},
		{"binary ", ReasonHead},
	} {
		assert.Equal(t, new(formField).readLine([]byte("Content-Transfer-Encoding: "+test.encoding)), test.want, "%q", test.encoding)
	}
}

// TestPlan_Read_boundaries has boundaries that occur in their own delimiters.
func TestPlan_Read_boundaries(t *testing.T) {
	for boundary, want := range map[string]string{
		"AaB-": "=a", "-AaB": "=a", "A--A": "=a", "form": "delimiter", "-": "delimiter", "----": "delimiter", "a": "delimiter",
		strings.Repeat("A", maxBoundary): "=a", strings.Repeat("-", 26) + "0a1b": "=a",
	} {
		contentType := ContentTypeOf(http.Header{"Content-Type": {"multipart/form-data; boundary=" + boundary}})
		body := strings.ReplaceAll(formPart(`Content-Disposition: form-data; name="email"`, "a")+"--AaB--\r\n", "AaB", boundary)
		assert.Equal(t, formValueText(readOne(t, "email", contentType, body)), want, "boundary %s", boundary)
	}
}

// TestPlan_Read_names reads several names of one form.
func TestPlan_Read_names(t *testing.T) {
	var plan FormPlan
	names := []string{"email", "user[password]", "x", "tenant", "none", "user"}
	for i, name := range names {
		assert.Equal(t, plan.Add(assert.NoError(ParseFieldName(name))(t)), i, "the number of %s", name)
	}
	var got []string
	for _, value := range plan.Read(urlEncoded, []byte("email=a&user[password]=p&x=1&x=2&tenant=a")) {
		got = append(got, formValueText(value))
	}
	assert.Equal(t, strings.Join(got, " "), "=a =p conflict =a absent prefix", "the values of %v", names)
	bare := plan.Read(urlEncoded, []byte("Password=b"))
	assert.Equal(t, formValueText(bare[1]), "prefix", "a password without its user")
	assert.Equal(t, formValueText(plan.Read(urlEncoded, []byte("password=b&user[password]=p"))[1]), "=p", "one beside a password")
	assert.Equal(t, formValueText(plan.Read(urlEncoded, []byte("password[x]=b"))[1]), "absent", "members of a password")
	for _, value := range plan.Read(urlEncoded, []byte("email=a;")) {
		assert.Equal(t, value, Unreadable(ReasonSemicolon), "a value")
	}
	for _, value := range plan.Read(ContentTypeOf(http.Header{"Content-Type": {"application/json"}}), []byte("{}")) {
		assert.Equal(t, value, Unreadable(ReasonType), "a value of JSON")
	}
	for _, value := range plan.Read(ContentType{}, nil) {
		assert.Equal(t, value, Unreadable(ReasonNoType), "a value without a type")
	}
}

// TestPlan_Read_writers reads what Go's writers make of any text.
func TestPlan_Read_writers(t *testing.T) {
	for _, text := range []string{"", "a", "Bob@Example.com", "ó 🆗\r\n\t&=+%;", strings.Repeat("x", 5000)} {
		form := url.Values{"email": {text}, "password": {"--" + text}, "e-mail": {"b"}}
		assert.Equal(t, formValueText(readOne(t, "email", urlEncoded, form.Encode())), "="+text, "urlencoded")

		var body bytes.Buffer
		w := multipart.NewWriter(&body)
		for name, values := range form {
			assert.Must(t, w.WriteField(name, values[0]))
		}
		file := assert.NoError(w.CreateFormFile("picture", "ü.png"))(t)
		assert.NoError(fmt.Fprintf(file, "\x00\xff%s", text))(t)
		assert.Must(t, w.Close())
		contentType := ContentTypeOf(http.Header{"Content-Type": {w.FormDataContentType()}})
		assert.Equal(t, formValueText(readOne(t, "email", contentType, body.String())), "="+text, "multipart")
	}
}

// TestPlan_Read_allocations has forms with many fields.
func TestPlan_Read_allocations(t *testing.T) {
	var plan FormPlan
	plan.Add(assert.NoError(ParseFieldName("email"))(t))
	field := formPart("Content-Disposition: form-data; name=\"x\"; filename=\"y\"\r\nContent-Type: text/plain; charset=utf-8", "1")
	for name, form := range map[string]struct {
		contentType ContentType
		body        string
	}{
		"urlencoded": {urlEncoded, strings.Repeat("x+%5By%5D=%C3%B3&", 900) + "email=a%40b"},
		"multipart":  {multiparts, strings.Repeat(field, 900) + formPart(`Content-Disposition: form-data; name="email"`, "a") + "--AaB--"},
	} {
		body := []byte(form.body)
		assert.Equal(t, plan.Read(form.contentType, body)[0].Kind(), KindText, "%s: the kind", name)
		n := testing.AllocsPerRun(10, func() { plan.Read(form.contentType, body) })
		assert.ErrorIf(t, n > 5, "%s: %g allocations", name, n)
	}
}
