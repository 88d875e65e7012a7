package main

import (
	"strconv"
	"strings"
)

// lookalikes are texts within a part that some parser may take for the end of a part. The head is of a field email.
var lookalikes = []string{
	"\r\n--AaBx\r\n", "\r\n--AaB-x\r\n", "\r\n--AaB \r\n", "\r\n--AaB\t\r\n", "\r\n--AaB", "\r\n--AaB\n", "\r\n--AaB\r", "\n--AaB\n",
	"\n--AaB\r\n", "\r--AaB\r",
	"\r--AaB\r\n", "\n--AaBx\n", "\n--AaB--\n", "\r\n--AaB--x\r\n", "\r\n--AaB-- \r\n", "\r\n--AaB--", "\r\n--AaB--\n",
	"\r\n--AaB -- \r\n", "\r\n--AaB-\r\n", "--AaB\r\n", "--AaB",
	"x--AaB\r\n", " --AaB\r\n", "\r\n --AaB\r\n", "\r\n-AaB\r\n", "\r\n---AaB\r\n", "\r\nAaB\r\n", "\r\n--aab\r\n", "\r\n--AAB\r\n",
	"\r\n--Aa", "\r\n--Aa\r\n", "\r\n--", "\r\n", "\r\n\r\n",
	"\r\n-", "\n--", "\n--Aa", "\r\n--a", "\r--Aa",
	"\r\n--\"AaB\"\r\n", "\v\r\n--AaB\v\r\n", "\r\n--AaB\x00\r\n", "\r\n\r\n--AaB \r\n", "\x00\r\n--AaB;\r\n",
}

// multipartBodies returns forms whose parts some parser may cut elsewhere.
func multipartBodies() (all []sample) {
	const inner = "Content-Disposition: form-data; name=\"email\"\r\n\r\nb"
	for _, lookalike := range lookalikes {
		name := "text " + strconv.QuoteToASCII(lookalike)
		all = append(all,
			multipart(name+" in the field", "email", part("email", "a"+lookalike+"foo")+end),
			multipart(name+" at the field's end", "email", part("email", "a"+lookalike)+end),
			multipart(name+" and a part in the field", "email", part("email", "a"+lookalike+inner)+end),
			multipart(name+" and a part in another field", "email", part("x", "q"+lookalike+inner)+part("email", "a")+end))
	}
	a, b, x := part("email", "a"), part("email", "b"), part("x", "1")
	lines := func(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }
	for _, form := range []struct{ name, body string }{
		{"one field", a + end}, {"a field twice", a + b + end}, {"a field twice, the same", a + a + end},
		{"between others", x + a + x + end},
		{"a preamble", "pre\r\n" + a + end}, {"a line end before", "\r\n" + a + end}, {"LF before", "\n" + a + end},
		{"a blank before", " " + a + end},
		{"a part as preamble", strings.TrimPrefix(b, "--AaB\r\n") + a + end}, {"a byte order mark before", "\ufeff" + a + end},
		{"NUL before", "\x00" + a + end},
		{"a preamble with fields", "email=b&x=\r\n" + a + end}, {"a preamble of JSON", `{"email":"b"}` + "\r\n" + a + end},
		{"no last delimiter", a}, {"no last delimiter, no line end", strings.TrimSuffix(a, "\r\n")},
		{"no last delimiter, half a line end", strings.TrimSuffix(a, "\n")},
		{"cut in the last delimiter", a + "--AaB"}, {"cut behind a hyphen", a + "--AaB-"}, {"cut within the boundary", a + "--Aa"},
		{"cut in a head", a + "--AaB\r\nContent-Disp"},
		{"cut behind a head", a + "--AaB\r\nContent-Disposition: form-data; name=\"email\"\r\n"},
		{"cut behind an empty line", a + "--AaB\r\nContent-Disposition: form-data; name=\"email\"\r\n\r\n"},
		{"no last line end", a + "--AaB--"}, {"an epilogue", a + end + "post"}, {"a line end as epilogue", a + end + "\r\n"},
		{"a blank as epilogue", a + end + " "},
		{"a part as epilogue", a + end + b + end}, {"an epilogue without a line end", a + "--AaB--post"},
		{"a part behind an end", x + end + a + end},
		{"nothing but an end", end}, {"nothing but a delimiter", "--AaB\r\n"}, {"an empty part", "--AaB\r\n\r\n\r\n" + a + end},
		{"a part without a head", "--AaB\r\n\r\nx\r\n" + a + end},
		{"a delimiter twice", "--AaB\r\n" + a + end},
		{"a part without an empty line", "--AaB\r\nContent-Disposition: form-data; name=\"email\"\r\n--AaB--\r\n"},
		{"LF alone", lines(a) + lines(end)}, {"LF in heads", "--AaB\nContent-Disposition: form-data; name=\"email\"\n\na\r\n" + end},
		{"LF at delimiters", "--AaB\r\nContent-Disposition: form-data; name=\"email\"\r\n\r\na\n--AaB--\n"},
		{"LF in a part before", lines(b) + a + end}, {"CR alone", strings.ReplaceAll(a+end, "\r\n", "\r")},
		{"CR CR LF", strings.ReplaceAll(a+end, "\r\n", "\r\r\n")},
		{"blanks behind a delimiter", strings.Replace(a, "--AaB\r\n", "--AaB \t\r\n", 1) + end},
		{"blanks behind the last delimiter", a + "--AaB-- \r\n"},
		{"no line end before a delimiter", "--AaB\r\nContent-Disposition: form-data; name=\"email\"\r\n\r\n--AaB--\r\n"},
		{"an empty value", part("email", "") + end}, {"hyphens as value", part("email", "--") + end},
		{"a line end as value", part("email", "\r\n") + end},
		{"a delimiter of three hyphens", "-" + a + end}, {"a delimiter without hyphens", strings.ReplaceAll(a+end, "--AaB", "AaB")},
		{"the boundary in lower case", strings.ReplaceAll(a+end, "AaB", "aab")},
		{"the boundary in a name", a + part("AaB", "1") + end}, {"the boundary in a value", a + part("x", "AaB") + end},
		{"the boundary as value", part("email", "AaB") + end},
		{"a charset field before", part("_charset_", "iso-8859-1") + part("email", "b\u00f3b") + end},
		{"a charset field behind", part("email", "b\u00f3b") + part("_charset_", "iso-8859-1") + end},
		{"999 parts before", strings.Repeat(x, 999) + a + end}, {"1000 parts before", strings.Repeat(x, 1000) + a + end},
		{"a field again behind 1000 parts", a + strings.Repeat(x, 1000) + b + end},
		{"a file before", headPart(`form-data; name="x"; filename="y"`, "Content-Type: image/png\r\n", "\x00\xff") + a + end},
		{"a file of the name before", headPart(`form-data; name="email"; filename="y"`, "", "b") + a + end},
		{"a file of the name behind", a + headPart(`form-data; name="email"; filename="y"`, "", "b") + end},
		{"urlencoded", "email=a"}, {"JSON", `{"email":"a"}`}, {"nothing", ""},
	} {
		all = append(all, multipart(form.name, "email", form.body))
	}
	query := multipart("a query beside", "email", a+end)
	query.query = "email=b"
	return append(all, query)
}
