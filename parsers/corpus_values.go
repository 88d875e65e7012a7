package main

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// texts are values that some parser may change or refuse.
var texts = []string{
	"a", "", "ab c", " a", "a ", " a ", "\ta", "a\t", "\na", "a\n", "a\r\n", "a\r", "\r\na", "a\nb", "a\rb", "a\r\nb", "a\vb", "a\fb",
	"\va",
	"a\x00b", "a\x00", "\x00a", "\x00", "a\x01b", "a\x08", "a\x1bb", "a\x1c", "a\x7fb", "a\u0080b", "a\u0085", "a\u009fb",
	"\u00a0a", "a\u00a0", "\u2003a", "a\u3000", "a\u2028b", "a\u2029", "\u200ba", "a\u200db", "a\u00adb", "\u200ea", "a\u202eb",
	"\u00ada", "a\u034f", "\u061ca", "\u115fa", "a\u1160", "\u17b4a", "\u180ea", "\u180ba", "\u2065a", "\u206aa", "\u2800a", "a\u3164",
	"\uffa0a", "\ufe0fa", "\ufff9a",
	"\U0001d159a", "a\U0001d173", "\U000e0020a", "\U000e0001a", "\U000e0100a", "\U0001bca0a",
	"\ufeffa", "a\ufeff", "a\ufeffb", "\ufffda", "a\uffff", "a\ufffe", "\ufdd0", "\U0001fffe", "\U0001f600", "b\u00f3b", "bo\u0301b",
	"B\u00d3B", "\u212a", "\ufb01", "\u0130", "\u00df", "\u1e9e", "\u01c5", "\uff21", "\u0661", "\u00bd", "\u037e", "\u1fef",
	"true", "null", "undefined", "[]", "{}", "[object Object]", `{"x":1}`, `"a"`, "'a'", "1", "01", "1.0", "1e3", "0x10", "-0", "NaN",
	"a+b", "a%2Bb", "a%20b", "%61", "%", "%zz", "%u0061", "a&b", "a&amp;b", "a=b", "a;b", "a,b", "a\\b", "a\\u0062", `a"b`, "<a>", "&#97;",
	"a@example.com", "A@Example.COM", "a+tag@example.com", "=?utf-8?q?a?=", "a--" + "b", "\u200fa", "a\u0301", "\u0301a", "\u0345",
	"e\u0301\u0323", "\u1100\u1161", "\uac00", "\U0001d51e", "\u2126", "\u00b5", "\u03c2", "\u1fb3",
}

// fieldValues returns each text as the value of a field and of a member, and a few that are no UTF-8.
func fieldValues() (all []sample) {
	for _, text := range texts {
		name := "value " + strconv.QuoteToASCII(text)
		all = append(all,
			urlencoded(name, "email", "x=1&email="+escape(text)+"&y=2"),
			multipart(name, "email", part("x", "1")+part("email", text)+end),
			document(name, "model", `{"x":1,"model":`+quoteJSON(text)+`}`))
		if utf8.RuneCountInString(text) != len(text) {
			all = append(all, document(name+", escaped", "model", `{"model":`+strconv.QuoteToASCII(text)+`}`))
		}
		if escape(text) != text && isPrintable(text) && !strings.Contains(text, "&") {
			all = append(all, urlencoded(name+", raw", "email", "email="+text))
		}
	}
	for _, bytes := range []string{
		"\xff", "a\xe9", "a\xed\xa0\x80", "a\xf8\x88\x80\x80\x80", "\xf4\x90\x80\x80", "a\xe2\x82", "\xfe\xff\x00a",
	} {
		name := "value " + strconv.QuoteToASCII(bytes)
		all = append(all,
			urlencoded(name, "email", "email="+escape(bytes)),
			urlencoded(name+", raw", "email", "email="+bytes),
			multipart(name, "email", part("email", bytes)+end),
			document(name, "model", `{"model":"`+bytes+`"}`))
	}
	for _, length := range []int{1 << 10, 70_000, 300_000} {
		name := "value of " + strconv.Itoa(length) + " bytes"
		text := strings.Repeat("b", length)
		all = append(all,
			urlencoded(name, "email", "email="+text),
			multipart(name, "email", part("email", text)+end),
			document(name, "model", `{"model":"`+text+`"}`))
	}
	return all
}
