package main

import "strings"

// dispositions are Content-Dispositions of a part with the value b, which stands alone and behind a field email.
var dispositions = []string{
	`form-data; name=email`, `form-data; name='email'`, `form-data;name="email"`, `form-data ; name="email"`, `form-data; name = "email"`,
	`form-data; name= "email"`, `form-data; name ="email"`, `form-data; NAME="email"`, `Form-Data; name="email"`,
	`form-data;  name="email"`,
	"form-data;\tname=\"email\"", `form-data; name="email";`, `form-data; name="email"; `, `form-data; name="email";;`,
	`form-data;; name="email"`,
	`form-data; name="email" x`, `form-data; name="email"x`, `form-data; name="email`, `form-data; name=email"`, `form-data; name=""email"`,
	`name="email"`, `; name="email"`, `attachment; name="email"`, `inline; name="email"`, `form-data, name="email"`,
	`form-data name="email"`,
	`file; name="email"`, `multipart/form-data; name="email"`, `form-data; x=1; name="email"`, `form-data; x="1"; name="email"`,
	`form-data; x="; name=y"; name="email"`, `form-data; x="name=y"; name="email"`, `form-data; xname="y"; name="email"`,
	`form-data; name="x"; name="email"`, `form-data; name="email"; name="x"`, `form-data; name=x; name="email"`,
	`form-data; name=""; name="email"`,
	`form-data; name*=utf-8''email`, `form-data; name*="utf-8''email"`, `form-data; name="x"; name*=utf-8''email`,
	`form-data; name*=utf-8''x; name="email"`,
	`form-data; name*0="em"; name*1="ail"`, `form-data; name*0*=utf-8''em; name*1="ail"`, `form-data; name*0="email"`,
	`form-data; name="x"; name*0="email"`, `form-data; name="=?utf-8?q?email?="`, `form-data; name="=?utf-8?b?ZW1haWw=?="`,
	`form-data; name==?utf-8?q?email?=`,
	`form-data; name="em\ail"`, `form-data; name="\email"`, `form-data; name="email\"`, `form-data; name="email\""`,
	`form-data; name="x\"; name=\"email"`,
	`form-data; name="x\"; name="email"`, `form-data; name="x\\"; name="email"`, `form-data; name="a/email"`,
	`form-data; name="a\\email"`, `form-data; name="C:\email"`,
	`form-data; name="x;name=email"`, `form-data; name="x; name=email"`, `form-data; name="x; name=email; y"`,
	`form-data; name="x'; name='email"`,
	`form-data; name=x;name=email`, `form-data; name="email%22"`, `form-data; name="%65mail"`, `form-data; name="&#101;mail"`,
	`form-data; name="em" "ail"`,
	`form-data; name=em ail`, `form-data; name=email; x`, `form-data; name=email;x=1`, `form-data; name=email/x`,
	`form-data; name=email(x)`,
	`form-data; (name="x") name="email"`, `form-data; name="email"; filename=""`, `form-data; name="email"; filename="x"`,
	`form-data; name="email"; filename=x`,
	`form-data; filename="x"; name="email"`, `form-data; name="email"; filename*=utf-8''x`, `form-data; name="email"; filename`,
	`form-data; name="email"; filename=`,
	`form-data; name="email"; FileName="x"`, `form-data; name="email"; xfilename="x"`, `form-data; filename="email"`,
	`form-data; filename="; name=email; y"`,
	`form-data; filename="x; name=email"`, `form-data; filename="name=email"`, `form-data; filename="x\"; name=\"email"`,
	`form-data; name="x"; filename="; name=email"`,
	`form-data; name="x"; filename="; name=\"email\""`, `form-data; name="x"; filename="y\"; name=\"email"`,
	`form-data; name="x"; filename="name =email"`,
	`form-data; filename="x"`, `form-data; name="email"; size=1`, `form-data; name="email"; creation-date="x"`, `form-data`, ``,
	`form-data; name=""`, `form-data; name`,
	`form-data; name=`, `form-data; name="e` + "\x00" + `mail"`, `form-data; name="email` + "\x00" + `"`,
	`form-data; name="` + "\xff" + `email"`, `form-data; name="email` + "\t" + `"`,
	"form-data;\r\n name=\"email\"", "form-data;\n name=\"email\"", "form-data; name=\"em\r\n ail\"",
	"form-data; name=\"x\"\r\n; name=\"email\"",
}

// multipartHeads returns forms with parts whose heads some parser may read in another way.
func multipartHeads() (all []sample) {
	for _, disposition := range dispositions {
		name := "disposition " + quoteShort(disposition)
		odd := headPart(disposition, "", "b")
		all = append(all,
			multipart(name+", alone", "email", odd+end),
			multipart(name+", behind", "email", part("email", "a")+odd+end))
	}
	for _, line := range []struct{ head, value string }{
		{"Content-Transfer-Encoding: base64\r\n", "YQ=="}, {"Content-Transfer-Encoding: quoted-printable\r\n", "=61"},
		{"Content-Transfer-Encoding: binary\r\n", "a"},
		{"content-transfer-encoding: BASE64\r\n", "YQ=="}, {"Content-Transfer-Encoding: x-uuencode\r\n", "a"},
		{"Content-Transfer-Encoding:  base64\r\n", "YQ=="}, {"Content-Encoding: gzip\r\n", "a"},
		{"Content-Length: 1\r\n", "a"}, {"Content-Length: 1\r\n", "abc"}, {"Content-Length: 9\r\n", "abc"},
		{"Content-Length: 0\r\n", "abc"}, {"Content-Length: x\r\n", "a"},
		{"Content-Length: +1\r\n", "a"}, {"Content-Length: 01\r\n", "a"}, {"Content-Length: 1\r\nContent-Length: 2\r\n", "ab"},
		{"Content-Type: text/plain\r\n", "a"}, {"Content-Type: text/plain; charset=utf-8\r\n", "b\u00f3b"},
		{"Content-Type: text/plain;charset=\"UTF-8\"\r\n", "b\u00f3b"},
		{"Content-Type: text/plain; charset=us-ascii\r\n", "b\u00f3b"}, {"Content-Type: text/plain; charset=iso-8859-1\r\n", "b\u00f3b"},
		{"Content-Type: text/plain; charset=utf-16le\r\n", "abcd"}, {"Content-Type: text/plain; charset=utf-7\r\n", "+AGE-"},
		{"Content-Type: text/plain; charset=x\r\n", "a"},
		{"Content-Type: text/plain; charset=\r\n", "a"}, {"Content-Type: text/plain; charset=utf-8; charset=utf-16le\r\n", "abcd"},
		{"Content-Type: text/plain; x=\"; charset=utf-16le\"\r\n", "abcd"},
		{"Content-Type: text/plain; charset=utf-8\r\nContent-Type: text/plain; charset=utf-16le\r\n", "abcd"},
		{"Content-Type: text/plain; format=flowed\r\n", "a"}, {"Content-Type: TEXT/PLAIN\r\n", "a"}, {"Content-Type:text/plain\r\n", "a"},
		{"Content-Type: \r\n", "a"},
		{"Content-Type: text\r\n", "a"}, {"Content-Type: text/html\r\n", "a"}, {"Content-Type: text/xml\r\n", "<a/>"},
		{"Content-Type: application/json\r\n", `"a"`},
		{"Content-Type: application/json\r\n", "1.0"}, {"Content-Type: application/json\r\n", `{"x":1}`},
		{"Content-Type: application/vnd.x+json\r\n", `"a"`},
		{"Content-Type: application/octet-stream\r\n", "a"}, {"Content-Type: application/x-www-form-urlencoded\r\n", "a%62"},
		{"Content-Type: multipart/mixed; boundary=CcD\r\n", "--CcD\r\nContent-Disposition: form-data; name=\"email\"\r\n\r\nb\r\n--CcD--"},
		{"Content-Type: multipart/mixed; boundary=CcD\r\n", "--CcD\r\nContent-Disposition: attachment; filename=\"x\"\r\n\r\nb\r\n--CcD--"},
		{"Content-Type: multipart/mixed\r\n", "a"}, {"Content-Type: multipart/form-data; boundary=AaB\r\n", "a"},
		{"Content-Type: message/rfc822\r\n", "email: b\r\n\r\na"},
		{"Content-Type: text/plain; x=multipart/mixed\r\n", "a"}, {"X-A: b\r\n", "a"}, {"Content-ID: <a>\r\n", "a"},
		{"MIME-Version: 1.0\r\n", "a"},
		{"Content-Disposition: form-data; name=\"x\"\r\n", "a"}, {"content-disposition: form-data; name=\"x\"\r\n", "a"},
		{"X Content-Disposition: form-data; name=\"x\"\r\n", "a"},
		{"X-A: b\r\n Content-Disposition: form-data; name=\"x\"\r\n", "a"}, {": b\r\n", "a"}, {"X-A\r\n", "a"}, {" X-A: b\r\n", "a"},
		{"X-A : b\r\n", "a"}, {"X-A: b\n", "a"},
		{"X-A: b\r", "a"}, {"X-A: \x00\r\n", "a"}, {"X-A: " + strings.Repeat("b", 300) + "\r\n", "a"},
		{"X-A: " + strings.Repeat("b", 9000) + "\r\n", "a"},
		{"\n", "a"}, {"\r", "a"}, {"X-\u00f3: b\r\n", "a"},
	} {
		name := "head " + quoteShort(line.head) + ", value " + quoteShort(line.value)
		all = append(all,
			multipart(name, "email", headPart(`form-data; name="email"`, line.head, line.value)+end),
			multipart(name+", of another field", "email", headPart(`form-data; name="x"`, line.head, line.value)+part("email", "a")+end))
	}
	return append(all, disturbedHeads()...)
}

// disturbedHeads returns forms of one field whose head is written in another way.
func disturbedHeads() (all []sample) {
	const before = "Content-D"
	for _, head := range []struct{ name, old, now string }{
		{"in lower case", "Content-Disposition", "content-disposition"}, {"without a blank", "Disposition: ", "Disposition:"},
		{"with two blanks", "Disposition: ", "Disposition:  "}, {"with a tab", "Disposition: ", "Disposition:\t"},
		{"with a blank before the colon", "Disposition:", "Disposition :"}, {"with a blank at its begin", before, " " + before},
		{"with a blank at its end", "\"\r\n", "\" \r\n"}, {"with a type before", before, "Content-Type: text/plain\r\n" + before},
		{"with a type of UTF-16 before", before, "Content-Type: text/plain; charset=utf-16le\r\n" + before},
	} {
		all = append(all, multipart("head "+head.name, "email", strings.Replace(part("email", "a"), head.old, head.now, 1)+end))
	}
	return all
}
