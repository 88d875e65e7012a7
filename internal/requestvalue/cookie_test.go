package requestvalue

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
)

func session(text string) bodyvalue.Value { return Cookie([]string{text}, ParseName("session")) }

func TestCookie(t *testing.T) {
	wantShown(t, session, map[string]string{
		"":                             "-",
		"x=y":                          "-",
		"session=":                     "-",
		"session":                      "-",
		"session=aBc":                  "abc",
		"session=%61bc":                "abc",
		`session="abc"`:                "abc",
		"x=y;  session = abc ;z=w":     "abc",
		"session=a+c":                  "a c",
		"session=a%20c":                "a c",
		"session=a%2Bc":                "a c", // Express and PHP read "+" here and there, Rack and gin a blank and "+"
		"session=abc%2B":               "abc",
		"session=abc%20":               "abc",
		"session=abc; session=abc":     "abc",
		"session=abc; session=abd":     "!repeated",
		`session="a\bc"`:               "!cookie_byte",
		"session=abc,def":              "!cookie_byte",
		"session=abc%3Bx":              "!cookie_byte",
		"session=abc&x=y":              "!cookie_byte",
		"session=j:12":                 "!cookie_byte",
		"session=j%3A12":               "!cookie_byte",
		"session=abc%":                 "!percent",
		"session=abc%zz":               "!percent",
		"session=abc%00":               "!control",
		"session=abc\xa0":              "!utf8",
		"session=b%C3%B3b":             "bob",
		"Session=abc":                  "!similar_name",
		"%73ession=abc":                "!similar_name",
		"session%20=abc":               "!similar_name",
		"\xa0session=abc":              "!similar_name",
		"session[]=abc":                "!similar_name",
		"x=y, session=abc":             "!similar_name",
		"session=abc; SESSION=abd":     "!conflict",
		"session=abc; session.sig=x":   "abc",
		"session=abc; _session=x":      "abc",
		"session=abc; session_id=x":    "abc",
		"session=abc; sessionid=x":     "abc",
		"session=abc; xsession=x":      "abc",
		"session=abc; x=a,session_b=c": "abc",
	})
	two := []string{"session=abc", "x=y"}
	assert.Equal(t, shown(Cookie(two, ParseName("session"))), "!repeated", "of two fields")
	assert.Equal(t, shown(Cookie(two, ParseName("id"))), "-", "of two fields without the name")
	phpSpelling := Cookie([]string{"session.id=abc"}, ParseName("session_id"))
	assert.Equal(t, shown(phpSpelling), "!similar_name", "of the name that PHP makes session_id of")
}

// jar has cookies as browsers send them to sites with statistics, consent and shops. %s is the place of the session.
const jar = "_ga=GA1.2.1234567890.1700000000; _ga_ABC=GS1.1.17000.1.1.17000.0.0.0; " +
	"OptanonConsent=isGpcEnabled=0&datestamp=Sun+Nov+29+2026&version=6.10&groups=C0001%%3A1%%2CC0002%%3A0; " +
	"cookieyes-consent=consentid:QWJj,consent:yes,action:no,necessary:yes; _hjSessionUser_12=eyJpZCI6ImEifQ==; " +
	"%s; AWSALB=Ab+cd/EF==; XSRF-TOKEN=eyJpdiI6Ik%%3D; prefs={\"theme\":\"dark\",\"n\":[1,2]}; intercom-session-ab12=QWJj; " +
	"session_id=zzz; JSESSIONID=0A1B.node1; sessionid=abc; session.sig=def; wp-settings-time-1=1700000000; visitor=a b"

// TestCookie_jars has the sessions of frameworks among the cookies that browsers send beside them.
func TestCookie_jars(t *testing.T) {
	for framework, text := range map[string]string{
		"express-session": "s%3AQhg5r-bhxOUIBGdxBAbCd.KAe%2Fv4TYwRf%2Bx0", "Laravel": "eyJpdiI6IkFCQyIsInZhbHVlIjoiWFlaIn0%3D",
		"Rails": "Ab%2BcD%2FeF--x1y2--Zz%3D%3D", "Django": "3q1h8w5q0k2z7", "PHP": "6lq1m0t7s9c2kq", "Flask": "eyJ1IjoxfQ.ZWx5aQ.sIg-nAt_ure",
		"ASP.NET": "CfDJ8Ab%2Fcd%2Bef", "Tomcat": "0A1B2C3D4E.node1", "UUID": "550e8400-e29b-41d4-a716-446655440000",
		"base64": "Ab+cd/EF==", "JSON": "%7B%22id%22%3A%22abc%22%7D", "Sanctum": "12|AbCdEf", "Supabase": "base64-eyJhY2Nlc3MifQ",
		"an array": "%5B%22eyJhIn0%22%2C%22x%22%5D",
	} {
		v := session(fmt.Sprintf(jar, "session="+text))
		assert.ErrorIf(t, v.Kind() != bodyvalue.KindText, "the session of %s is %s", framework, shown(v))
	}
}

// FuzzCookie wants a cookie that net/http reads to be read as that text, folded, or to be unreadable.
func FuzzCookie(f *testing.F) {
	f.Add("session=abc; x=y")
	f.Add(`session="a\bc"; Session=%61`)
	f.Fuzz(func(t *testing.T, line string) {
		r := &http.Request{Header: http.Header{"Cookie": {line}}}
		sent, err := r.Cookie("session")
		if err != nil || sent.Value == "" {
			return
		}
		switch v := session(line); v.Kind() {
		case bodyvalue.KindAbsent:
			rest := strings.ReplaceAll(sent.Value, "+", "")
			assert.ErrorIf(t, bodyvalue.FoldKey(strings.Trim(rest, `" `)) != "" && !strings.Contains(rest, "%"), "%q is absent, net/http reads %q", line, sent.Value)
		case bodyvalue.KindText:
			assert.ErrorIf(t, !strings.Contains(sent.Value, "%") && !strings.Contains(sent.Value, "+") && v.Text() != bodyvalue.FoldKey(strings.Trim(sent.Value, `" `)),
				"%q is %q, net/http reads %q", line, v.Text(), sent.Value)
		}
	})
}
