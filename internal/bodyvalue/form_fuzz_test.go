package bodyvalue

import (
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// sentField is a field that a reference has found.
type sentField struct{ name, value string }

// checkReference compares a value with the fields that a reference found, after the body was read here.
func checkReference(t *testing.T, name FieldName, value Value, sent []sentField) {
	t.Helper()
	var conflicting []sentField
	for _, field := range sent {
		if name.compare([]byte(field.name)) != matchNone {
			conflicting = append(conflicting, field)
		}
	}
	switch value.Kind() {
	case KindAbsent:
		assert.ErrorIf(t, len(conflicting) > 0, "%s is absent, the reference has %q", name, conflicting)
	case KindText:
		assert.FatalIf(t, len(conflicting) != 1, "%s is %q, the reference has %q", name, value.Text(), conflicting)
		assert.Equal(t, value.Text(), conflicting[0].value, "the value of %s", name)
		assert.Equal(t, New(value.Text()), value, "the value of %s, checked again", name)
	}
}

// FuzzPlan_urlencoded compares with net/http, where a body is read here.
func FuzzPlan_urlencoded(f *testing.F) {
	for _, body := range []string{
		"email=a", "x=1&email=a%2Bb+c&email_x=2", "user%5Bemail%5D=%C3%B3&&=x", "email=a&Email=b", "email", "x=%zz", "a;b", " {", "?email=a",
		"email[]=a&e%6dail", "_charset_=a", "email=%EF%BB%BF", "email=%C3&%B3", "email=%", "EMAIL%00=a%26b",
	} {
		f.Add(body, "email")
		f.Add(body, "user[email]")
	}
	f.Fuzz(func(t *testing.T, body, asked string) {
		name, err := ParseFieldName(asked)
		if err != nil {
			t.Skip()
		}
		value := readOne(t, asked, urlEncoded, body)
		if value.Kind() == KindUnreadable {
			t.Skip()
		}
		request, err := http.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		assert.Must(t, err)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		assert.Must(t, request.ParseForm())
		var sent []sentField
		for name, values := range request.PostForm {
			for _, value := range values {
				sent = append(sent, sentField{name, value})
			}
		}
		checkReference(t, name, value, sent)
		if request.PostForm.Has(asked) {
			assert.Equal(t, request.PostFormValue(asked), value.Text(), "the value of %q", asked)
		}
	})
}

// FuzzPlan_multipart compares with mime/multipart, where a body is read here, and counts the boundary's text.
func FuzzPlan_multipart(f *testing.F) {
	const email, end = `Content-Disposition: form-data; name="email"`, "--AaB--\r\n"
	for _, body := range []string{
		formPart(email, "a") + end, formPart(email+`; filename="f"`+"\r\nContent-Type: a/b", "a") + formPart(email, "b") + end,
		formPart(`Content-Disposition: form-data; name="[Email]"`, "\u00f3\r\n--") + "--AaB--", formPart(email, "a\r\n--AaBx\r\n") + end,
		formPart(email+"\r\nContent-Length: 1\r\nContent-Type: text/plain", "a") + end, formPart(email, "a--AaB") + end, end, "--AaB\r\n\r\n",
	} {
		f.Add([]byte(body), "email", "AaB")
	}
	f.Add([]byte("----\r\n"+email+"\r\n\r\na\r\n------"), "email", "--")
	f.Fuzz(func(t *testing.T, body []byte, asked, boundary string) {
		name, err := ParseFieldName(asked)
		if err != nil || !isBoundary([]byte(boundary)) {
			t.Skip()
		}
		value := readOne(t, asked, ContentType{format: formatMultipart, boundary: boundary}, string(body))
		if value.Kind() == KindUnreadable {
			t.Skip()
		}
		var sent []sentField
		parts := 0
		for r := multipart.NewReader(bytes.NewReader(body), boundary); ; parts++ {
			part, err := r.NextRawPart()
			if errors.Is(err, io.EOF) {
				break
			}
			assert.Must(t, err)
			data := assert.NoError(io.ReadAll(part))(t)
			sent = append(sent, sentField{part.FormName(), string(data)})
		}
		checkReference(t, name, value, sent)
		delimiters := 0
		for i := range body {
			if bytes.HasPrefix(body[i:], []byte(boundary)) {
				delimiters++
			}
		}
		assert.Equal(t, delimiters, parts+1, "how often %q is in %q", boundary, body)
	})
}

// FuzzName_InQuery never fails, and finds what is in the query as it stands.
func FuzzName_InQuery(f *testing.F) {
	f.Add("email", "x=1&email=a")
	f.Add("user[email]", "a;%55ser.email")
	f.Add("email", "%zz%C3=a&+")
	f.Fuzz(func(t *testing.T, asked, query string) {
		name, err := ParseFieldName(asked)
		if err != nil {
			t.Skip()
		}
		want := false
		for _, parameter := range strings.FieldsFunc(query, func(r rune) bool { return r == '&' || r == ';' }) {
			text, _, _ := strings.Cut(parameter, "=")
			if utf8.ValidString(text) && !strings.ContainsAny(text, "%+") && text != "" && name.compare([]byte(text)) != matchNone {
				want = true
			}
		}
		values, _ := url.ParseQuery(strings.ReplaceAll(query, ";", "&")) // those that are read
		for sent := range values {
			want = want || sent != "" && name.compare([]byte(sent)) != matchNone
		}
		assert.ErrorIf(t, want && !name.InQuery(query), "%q is not in the query %q", asked, query)
	})
}

// benchmarkForms are bodies of about 1 KiB, and worse ones of 1 MiB.
var benchmarkForms = []struct {
	name        string
	contentType ContentType
	body        string
}{
	{"urlencoded", urlEncoded, "email=bob%40example.com&password=secret" + strings.Repeat("&name=a+short+text&number=1234567890", 27)},
	{"urlencoded_escapes", urlEncoded, "email=bob%40example.com" + strings.Repeat("&name=%D0%94%D0%B8%D0%BC%D0%B0", 33)},
	{"multipart", multiparts, formPart(`Content-Disposition: form-data; name="email"`, "bob@example.com") +
		strings.Repeat(formPart(`Content-Disposition: form-data; name="name"`, "a short text"), 13) + "--AaB--\r\n"},
	{"multipart_file", multiparts, formPart(`Content-Disposition: form-data; name="email"`, "bob@example.com") +
		formPart("Content-Disposition: form-data; name=\"f\"; filename=\"f\"\r\nContent-Type: image/png", strings.Repeat("\x00\xff-- A", 200<<10)) +
		"--AaB--\r\n"},
	{"multipart_like_boundary", ContentTypeOf(http.Header{"Content-Type": {"multipart/form-data; boundary=" + strings.Repeat("-", 62) + "x"}}),
		"--" + strings.Repeat("-", 62) + "x\r\n" + "Content-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n" +
			strings.Repeat(strings.Repeat("-", 61)+"x", 16<<10) + "\r\n--" + strings.Repeat("-", 62) + "x--"},
	{"urlencoded_ampersands", urlEncoded, strings.Repeat("e&", 512<<10)},
	{"urlencoded_members", urlEncoded, strings.Repeat("e.e&", 256<<10)},
}

// BenchmarkFormPlan_Read reads one value of a form.
func BenchmarkFormPlan_Read(b *testing.B) {
	var plan FormPlan
	plan.Add(assert.NoError(ParseFieldName("email"))(b))
	for _, form := range benchmarkForms {
		body := []byte(form.body)
		b.Run("form="+form.name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				value := plan.Read(form.contentType, body)[0]
				assert.FatalIf(b, value.Kind() == KindUnreadable, "%s", value.Reason())
			}
		})
	}
}

// BenchmarkTypeOf reads a header.
func BenchmarkTypeOf(b *testing.B) {
	header := http.Header{"Content-Type": {"multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW"}}
	b.ReportAllocs()
	for b.Loop() {
		ContentTypeOf(header)
	}
}
