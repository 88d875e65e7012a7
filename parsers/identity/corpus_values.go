package main

import (
	"slices"
	"strings"
)

func apiKeyInputs() []input {
	return slices.Concat(ofHeader(apiKeys, "X-Api-Key", append([]string{
		"abc", "   abc", "abc  ", "abc\t", "ABC", "abc, def", "abc,def", "abc,", ",abc", "", "  ", `"abc"`, "%61bc",
		"a  bc", "a bc", "abc\xa0", "\xa0abc", "ab\xe9", "ab\xc3\xa9", "abc\x0b", "abc\x0c", "abc\x1c", "abc\x85",
		"abc\xc2\xa0", "a\r\n bc",
	}, strings.Repeat("a", 7000))), ofLines(apiKeys, [][]string{
		{"X-Api-Key:\tabc"}, {"X-Api-Key:abc"}, {"X-Api-Key: abc", "X-Api-Key: def"}, {"X-Api-Key: abc", "X-Api-Key: abc"},
		{"X-Api-Key: ", "X-Api-Key: abc"}, {"X-Api-Key: abc", "X-Api-Key: "}, {"x-api-key: abc"}, {"X_Api_Key: abc"}, {"X.Api.Key: abc"},
		{"X-Api-Key: abc", "X_Api_Key: def"}, {"X-Api-Key : abc"},
	}))
}

func cookieInputs() []input {
	return slices.Concat(ofHeader(cookies, "Cookie", append([]string{
		"session=abc", "session=%61bc", "session=a%62c", "session=%61%62%63", "session=abc%20", "session=abc%00x",
		`session="abc"`, `session="a\bc"`, `session="\141bc"`, `session=\141bc`, "session='abc'", `session="abc`,
		`session=abc"`, "session=abc; session=def", "session=def; session=abc", "session=abc; session=abc", "session =abc",
		"session= abc", "session=abc ", "session=abc ; x=y", "x=y;session=abc", "x=y;  session=abc", "x=y;\tsession=abc",
		"session=\tabc", "x=y, session=abc", "session=abc, x=y", "session=abc,def", "session=a bc", "session=a+bc",
		"Session=abc", "SESSION=abc", "Session=def; session=abc", "%73ession=abc", "sess%69on=abc",
		"%73ession=def; session=abc", "session[0]=abc", "session[]=abc", "$Version=1; session=abc",
		`$Version="1"; session="abc"; $Path="/"`, "$session=abc", "session=abc\xff", "session=abc\xa0",
		"session=ab\xc3\xa9", "session=abc%", "session=abc%zz", "session=%61bc%", "session", "session=",
		"session=; session=abc", "session=abc; session=", "; session=abc", "=session=abc", "=x; session=abc",
		"session=abc=", "session=a=b=c", "__Host-session=abc", "__Host-session=def; session=abc", `x="; session=abc; "`,
		`x="; session=def"; session=abc`, `session="abc; x=y"`, `session=abc\; x=y`, `session=j:"abc"`, "session=s:abc.sig",
		"session={abc}", "ses.sion=abc", "session=%u0061bc", "session=abc\x01", "session=abc\x7f", "session=YWJj==",
		"\xa0session=abc", "x=y;\x0bsession=abc", "session%3Dabc", "session=abc%3Bx", "x=y&session=abc", "session=abc&x=y",
		"session=abc%0A", "session=abc%2B", "session=abc+", "session=%22abc%22", `session="%61bc"`, "session=j:12",
		"session=j: 12", "session=j%3A12", `session=""abc""`, `session="abc" `, `session=" abc"`, "session=abc%5C",
		"session=abc%0D%0A", "session=ab%C3%A9", "session=ab%E9", "session=ABC%", "session=%2561bc", "session=a%20c",
		"session=a%2Bc", "session.=abc", "_session=abc", "session%20=abc", "+session=abc", "session%00=abc",
		"session%5B0%5D=abc", "x=y,session=abc", "session:abc", `session=""`,
		"session=a%2bc", "session=abc%2C", "session=abc%2Cx", `session="abc%2B"`, `session=%6a:"abc"`, "session\x0b=abc",
		"session%09=abc", `x="y; session=abc`, "session=abc%22", "session=%22abc",
	}, "session="+strings.Repeat("a", 5000))), ofLines(cookies, [][]string{
		{"Cookie: session=abc", "Cookie: session=def"}, {"Cookie: x=y", "Cookie: session=abc"}, {"cookie: session=abc"},
		{"Cookie: session=abc", "Cookie: session=abc"}, {"Cookie: session=abc", "Cookie: x=y"},
	}))
}

func queryInputs() []input {
	return ofTargets(queries, ownPath, append([]string{
		"?token=abc", "?token=%61bc", "?token=%61%62%63", "?token=abc;x=1", "?token=abc;", "?x=1;token=abc",
		"?x=1;y&token=abc", "?t%6fken=abc", "?%74oken=abc", "?token%20=abc", "?%20token=abc", "?+token=abc", "?token+=abc",
		"?token=abc%20", "?token=abc+", "?token=%20abc", "?token=abc&token=def", "?token=def&token=abc",
		"?token=abc&token=abc", "?token[]=abc", "?token[]=def&token=abc", "?token=abc&token[]=def", "?token%5B%5D=abc",
		"?token[0]=abc", "?token[a]=abc", "?token[=abc", "?token=abc%", "?token=abc%zz", "?x=%zz&token=abc",
		"?token=%61bc%", "?token=abc?b", "?x=1?token=abc", "??token=abc", "?=x&token=abc", "?&token=abc", "?&&token=abc&",
		"?TOKEN=abc", "?Token=abc", "?Token=def&token=abc", "?token", "?token=", "?token=&token=abc", "?token=abc&token=",
		"?token=abc=d", "?token=abc%00", "?token%00=abc", "?token%00x=abc", "?token=abc\xff", "?token=abc%ff",
		"?token=ab\xc3\xa9", "?token=ab%C3%A9", "?token=ab%E9", "?to.ken=abc", `?token="abc"`, "?token=%22abc%22",
		"?token=abc%23x", "?token=%u0061bc", "?token=abc%26x", "?token=a+c", "?token=a%20c", "?token=a%2Bc",
		"?token=abc%09", "?token=abc%0A", "?token=abc%C2%A0", "?_token=abc", "?token.x=def&token=abc", "?x=1&amp;token=abc",
		"?token=abc,def", "?token=abc%2Cdef", "?x|token=abc", "?token%3Dabc", "?to%C2%ADken=abc", "?token=abc/",
		"?token=abc%01", "?token=%EF%BD%81bc", "?token=abc&;", "?;&token=abc", "?a;token=abc;b", "?token=abc&a;b",
		"?token=%2561bc", "?%74%6F%6B%65%6E=%61%62%63", "?%00token=abc", "?token=ABC", "?token=abc%3Bx=1", "?to+ken=abc",
		"?token=a%C2%ADbc", "?token=abc%E2%80%8B", "?token=%EF%BB%BFabc",
		"?token=abc#x", "?token=abc#y", "?token=abc#", "?x=1#&token=abc", "?token=abc&x=1#y", "?token#=abc", "?#token=abc",
		"?%EF%BB%BFtoken=abc", "?token%C2%A0=abc", "?token=abc%2B", "?token=abc\\", "?token=abc%5C", "?token=a%2bc",
	}, "?token="+strings.Repeat("a", 5000), "?"+strings.Repeat("x=1&", 1100)+"token=abc", "?token=abc"+strings.Repeat("&", 10_000)))
}
