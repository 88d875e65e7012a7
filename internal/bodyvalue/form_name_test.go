package bodyvalue

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

func TestParseName(t *testing.T) {
	for _, text := range []string{"", "a\xff"} {
		_, err := ParseFieldName(text)
		assert.ErrorIf(t, err == nil, "%q is a name", text)
	}
	assert.Equal(t, assert.NoError(ParseFieldName("user[email]"))(t).String(), "user[email]", "the name")
}

func TestName_compare(t *testing.T) {
	for _, test := range []struct {
		asked, field string
		want         match
	}{
		{"email", "email", matchEqual},
		{"email", "EMAIL", matchEqual},
		{"email", "[[email", matchEqual},
		{"email", "email]", matchEqual},
		{"email", "email[]", matchEqual},
		{"email", "\ufeff?email", matchEqual},
		{"email", "email]..", matchPrefix},
		{"email", "email[", matchPrefix},
		{"email", "email[ ]", matchPrefix},
		{"email", "email[[]]", matchPrefix},
		{"email", "email.", matchPrefix},
		{"email", "email_.", matchPrefix},
		{"email", "email\x00", matchPrefix},
		{"email", "email\u00a0", matchPrefix},
		{"email", "\u00a0_email_", matchEqual},
		{"email", "!email", matchEqual},
		{"email", "email!x", matchNone},
		{"email", "\x1femail", matchEqual},
		{"email", "", matchNone},
		{"email", "_", matchNone},
		{"email", "emai", matchNone},
		{"email", "e-mail", matchNone},
		{"email", "x.email", matchNone},
		{"email", "email_x", matchNone},
		{"email", "email?x", matchNone},
		{"email", "email_.x", matchPrefix},
		{"email", "email._x", matchPrefix},
		{"email", "email x", matchPrefix},
		{"email", "email\x00x", matchPrefix},
		{"email", "email[x][y]", matchPrefix},
		{"email", "email\ufffd", matchNone},
		{"email", "email\xff", matchNone},
		{"e\u00e9", "E\u00c9", matchEqual},
		{"e\u00e9", "e\u00ea", matchNone},
		{"key", "\u212aey", matchEqual},
		{"user[email]", "user.email", matchEqual},
		{"user[email]", "user_email", matchEqual},
		{"user[email]", "USER][EMAIL", matchEqual},
		{"user[email]", "user[email][]", matchEqual},
		{"user[email]", "user[email]]", matchPrefix},
		{"user[email]", "user[email] ", matchPrefix},
		{"user[email]", "user", matchPrefix},
		{"user[email]", "user[]", matchPrefix},
		{"user[email]", "use", matchNone},
		{"user[email]", "user[password]", matchNone},
		{"user[email]", "useremail", matchNone},
		{"user[email]", "user\ufffdemail", matchNone},
		{"user[email]", "user[emai]", matchNone},
		{"user[email]", "user[email][x]", matchPrefix},
		{"user_email", "user", matchNone},
		{"user_email", "user email", matchEqual},
		{"_username", ".username", matchEqual},
		{"_", "_", matchEqual},
		{"_", "[x]", matchPrefix},
		{"_", "_x", matchNone},
	} {
		got := assert.NoError(ParseFieldName(test.asked))(t).compare([]byte(test.field))
		assert.Equal(t, got, test.want, "%q compared with %q", test.field, test.asked)
	}
}

func TestName_InQuery(t *testing.T) {
	for query, want := range map[string]bool{
		"": false, "x=1": false, "email=b": true, "Email": true, "x=1;email=b": true, "x=1&amp;email=b": true, "=email": true, "==email=b": true, "=x=email": false,
		"%65mail=b": true, "%zz=1&email%=2": false, "email[%zz]=b": true, "?email=b": true, "login_hint=email": false,
		"email_hint=b": false, "email%5B%5D=b": true, "e%ffmail=b": false, "+email=b": true, "%C2%A0email": true, "&&;&=&email": true,
		"email%00=b": true, "user.email=b": false,
	} {
		assert.Equal(t, assert.NoError(ParseFieldName("email"))(t).InQuery(query), want, "email in the query %q", query)
	}
}

// listOf returns the elements of a name, as another way to compile a name.
func listOf(name string) string {
	return strings.Join(strings.FieldsFunc(strings.Map(FoldRune, name), isSeparator), "\x00")
}

func isSeparator(r rune) bool { return strings.ContainsRune("_?!", r) || isHard(r) }

func isHard(r rune) bool {
	return strings.ContainsRune("[].\x00\ufeff\x1c\x1d\x1e\x1f", r) || unicode.IsSpace(r)
}

// conflictsBy reports whether a name conflicts with the begin of another one, before a separator that makes objects.
func conflictsBy(name, longer string, empty bool) bool {
	for i, r := range longer {
		if list := listOf(longer[:i]); isHard(r) && (list != "" || empty) && list == listOf(name) {
			return true
		}
	}
	return false
}

// isTailBy reports whether nothing behind the last element of a name makes an object of the field.
func isTailBy(name string) bool {
	tail := name[len(strings.TrimRightFunc(name, isSeparator)):]
	return tail == name || slices.Contains([]string{"]", "[]", "][]"}, tail) || !strings.ContainsFunc(tail, isHard)
}

// FuzzName_compare compares with elements that are cut and joined.
func FuzzName_compare(f *testing.F) {
	for _, asked := range []string{"email", "user[email]", "_", "É.x", "a_b c"} {
		for _, field := range []string{"email", "user", "user.email[x]", "[", "é x", "A b__C"} {
			f.Add(asked, field)
		}
	}
	f.Fuzz(func(t *testing.T, asked, field string) {
		name, err := ParseFieldName(asked)
		if err != nil || !utf8.ValidString(field) {
			t.Skip()
		}
		want := matchNone
		switch {
		case listOf(asked) == listOf(field) && isTailBy(field):
			want = matchEqual
		case listOf(asked) == listOf(field), conflictsBy(asked, field, true), conflictsBy(field, asked, false):
			want = matchPrefix
		}
		assert.Equal(t, name.compare([]byte(field)), want, "%q compared with %q", field, asked)
	})
}
