package requestvalue

import (
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
)

// shown is a value in tables: its text, "-" if it is absent, and "!" with the reason if it is unreadable.
func shown(v bodyvalue.Value) string {
	switch v.Kind() {
	case bodyvalue.KindAbsent:
		return "-"
	case bodyvalue.KindUnreadable:
		return "!" + v.Reason().String()
	}
	return v.Text()
}

// wantShown compares values with those of a table from inputs to what is shown.
func wantShown(t *testing.T, read func(text string) bodyvalue.Value, table map[string]string) {
	t.Helper()
	for input, want := range table {
		assert.Equal(t, shown(read(input)), want, "of %q", input)
	}
}

func TestHeader(t *testing.T) {
	wantShown(t, func(text string) bodyvalue.Value { return Header([]string{text}) }, map[string]string{
		"":            "-",
		" \t ":        "-",
		" aBc ":       "abc",
		"abc,def":     "abc,def",
		`"abc"`:       `"abc"`,
		"%61bc":       "%61bc",
		"a  c":        "a  c",
		"abc\u00a0":   "!ends",
		"abc\xa0":     "!ends",
		"\u00a0abc":   "!ends",
		"J\u00d6rg X": "j\u00d6rg x",
		"a\xffb":      "!utf8",
		"a\x01b":      "!control",
		"a\tb":        "!control",
		"a\x7fb":      "!control",
	})
	assert.Equal(t, shown(Header(nil)), "-", "without a field")
	assert.Equal(t, shown(Header([]string{"a", "a"})), "!repeated", "of two fields")
}

func TestHeader_memory(t *testing.T) {
	for _, test := range []struct {
		text string
		want float64
	}{{"abc-123", 0}, {" abc ", 0}, {"ABC", 1}} {
		fields := []string{test.text}
		assert.Equal(t, testing.AllocsPerRun(10, func() { Header(fields) }), test.want, "allocations for %q", test.text)
	}
}

func TestHost(t *testing.T) {
	wantShown(t, Host, map[string]string{
		"":                      "-",
		"App.Example":           "app.example",
		"app.example.":          "app.example",
		"app.example..:443":     "app.example",
		"app.example:":          "app.example",
		"app.example:x":         "!host",
		"a%2eb":                 "!host",
		"[0:0:0:0:0:0:0:1]:80":  "::1",
		"[fe80::1%eth0]":        "fe80::1",
		"::1":                   "::1",
		"[127.0.0.1]":           "!host",
		"[::1":                  "!host",
		"...":                   "!host",
		"127.0.0.1:8080":        "127.0.0.1",
		"caf\u00e9.example":     "!host",
		"app.example@evil.test": "!host",
	})
	for input, want := range map[string]string{
		"App.Example:0080": "app.example", "app.example:443": "app.example:443", "[::1]:08080": "[::1]:8080", "app.example:0": "app.example",
	} {
		assert.Equal(t, shown(HostPort(input, false)), want, "of %q", input)
	}
	assert.Equal(t, shown(HostPort("app.example:443", true)), "app.example", "of the port of HTTPS")
	assert.Equal(t, shown(HostPort("app.example:80", true)), "app.example:80", "of the port of HTTP over TLS")
}

// FuzzCanonical wants each value that is written for operators to be its own value: they give it to commands as it is shown.
func FuzzCanonical(f *testing.F) {
	for _, text := range []string{"/Login/", "/a/../b.php/c.json", "Basic YWxpY2U6cHc=", "Bearer eyJh.eyJi.c2ln", "App.Example.:443", "/..;/x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, read := range map[string]func(string) bodyvalue.Value{
			"Header":        func(text string) bodyvalue.Value { return Header([]string{text}) },
			"Authorization": authorization,
			"Path":          Path,
			"Host":          Host,
			"HostPort":      func(text string) bodyvalue.Value { return HostPort(text, false) },
		} {
			once := read(text)
			if once.Kind() != bodyvalue.KindText {
				continue
			}
			assert.Equal(t, shown(read(once.Text())), once.Text(), "%s of the value of %q", name, text)
			assert.ErrorIf(t, strings.ContainsFunc(once.Text(), func(r rune) bool { return r < ' ' || r == 0x7f }), "%s: control in %q", name, once.Text())
		}
	})
}
