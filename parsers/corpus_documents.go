package main

import (
	"strconv"
	"strings"
)

// documentNames returns documents with names that some parser may take for the asked one.
func documentNames() (all []sample) {
	for _, spelling := range []string{
		`model`, `mod\u0065l`, `Model`, `MODEL`, `\u004dodel`, `modEl`, `mode\u217c`, `mode\u2113`, `mo\u0501el`, `\uff4dodel`,
		`model\u0000`, `\u0000model`, `model\u0000x`, ` model`, `model `, `\tmodel`,
		`model\n`, `\u00a0model`, `\ufeffmodel`, `model\ufeff`, `\u200bmodel`, `mo\u00addel`, `model[]`, `model.`, `.model`, `model.x`,
		`_model`, `model_`, `mo_del`, `mo-del`, `mo del`, `@model`, `$model`, `-model`,
		`#model`, `model\\`, `\\model`, `model\/`, `'model'`, `\"model\"`, `model:string`, `model?`, `model\ud800`, `\udc00model`,
		`m\u00f6del`, `mo\u0308del`, `!model`, `model|x`, `*`, `0`, ``,
	} {
		all = append(all, spelledMember("model", spelling)...)
	}
	for _, spelling := range []string{
		`user_id`, `userId`, `userID`, `UserId`, `UserID`, `userid`, `USER_ID`, `User_Id`, `user_Id`, `user-id`, `user__id`, `_user_id`,
		`user_id_`, `_userId`, `userId_`, `u_serId`, `user\u005fid`, `user\u0049d`, `user_\u0131d`, `user id`, `user.id`, `[user_id]`,
		`@userId`, `userId `, `userId\u0000`,
	} {
		all = append(all, spelledMember("user_id", spelling)...)
	}
	all = append(all, spelledMember("userId", "user_id")...)
	for _, body := range []string{
		`{"user":{"email":"a"}}`, `{"user":{"Email":"a"}}`, `{"User":{"email":"a"}}`, `{"user":{"email":"a"},"User":{"email":"b"}}`,
		`{"user":{"email":"a"},"user":{"email":"b"}}`,
		`{"user":{"email":"a"},"user":{}}`, `{"user":{"email":"a"},"user":null}`, `{"user":null,"user":{"email":"a"}}`,
		`{"user":{},"user":{"email":"a"}}`, `{"user":{"x":1},"user":{"email":"a"}}`,
		`{"user":{"email":"a","email":"b"}}`, `{"user":{"email":"a","Email":"b"}}`, `{"user":{"email":"a","x":{"email":"b"}}}`,
		`{"user":{"x":{"email":"b"}}}`,
		`{"user.email":"b","user":{"email":"a"}}`, `{"user":{"email":"a"},"user.email":"b"}`, `{"user.email":"a"}`, `{"User.Email":"a"}`,
		`{"user_email":"a"}`, `{"user[email]":"a"}`, `{"user/email":"a"}`, `{"user:email":"a"}`,
		`{"user[email]":"b","user":{"email":"a"}}`, `{"user_email":"b","user":{"email":"a"}}`, `{"user":[{"email":"a"}]}`, `{"user":[]}`,
		`{"user":"email"}`, `{"user":"a"}`, `{"user":1}`, `{"user":true}`, `{"user":null}`,
		`{"user":{"email":{"email":"a"}}}`, `{"user":{"email":["a"]}}`, `{"user":{"email":null}}`, `{"user":{"email":1}}`,
		`{"email":"a"}`, `{"Email":"a"}`, `{"e_mail":"a"}`, `{"\u0065mail":"a"}`, `{"email":1}`, `{"email":null}`, `{"email":{"email":"a"}}`,
		`{"email":"a","x":1}`, `{"email":"a","email":"b"}`, `{"email":"a","_method":"PUT"}`, `{"x":{"email":"a"}}`, `[{"email":"a"}]`,
		`{"_json":{"email":"a"}}`,
		`{"email":"b","user":{"email":"a"}}`, `{"user":{"email":"a"},"email":"b"}`, `{"email":"b","user":{}}`, `{"email":"b","user":null}`,
		`{"email":"b","user":"a"}`, `{"email":"b","user":[]}`, `{"email":"b","user":{"x":1}}`, `{"email":"b","User":{"email":"a"}}`,
		`{"email":"b","user\u0000":{"email":"a"}}`, `{"email":"b","us_er":{"email":"a"}}`, `{"email":"b","users":{"email":"a"}}`,
		`{"email":"b","user.email":"a"}`, `{"email":"b","user_email":"a"}`, `{"user":{"email":"a"},"email":null}`,
		`{"x":{"user":{"email":"a"}}}`, `{"user":{"user":{"email":"a"}}}`,
		`{"user\u0000":{"email":"b"},"user":{"email":"a"}}`,
		`{"user":{"email\u0000":"b","email":"a"}}`, `{"user":"{\"email\":\"a\"}"}`, `[{"user":{"email":"a"}}]`,
		`{"user":{"":"b","email":"a"}}`, `{"":{"user":{"email":"b"}},"user":{"email":"a"}}`,
		`{"x":{"user.email":"b"},"user":{"email":"a"}}`, `{"user":{"user.email":"b"}}`, `{"user":{"email":"a"},"user\ud800":1}`,
	} {
		all = append(all, document("user.email of "+body, "user.email", body))
	}
	return all
}

// spelledMember returns documents with a spelling of the asked name, alone and beside the name.
func spelledMember(asked, spelling string) []sample {
	name := "name " + strconv.QuoteToASCII(spelling)
	if asked != "model" {
		name += " for " + asked
	}
	plain, member := `"`+asked+`":"a"`, `"`+spelling+`":"b"`
	return []sample{
		document(name+", alone", asked, `{`+member+`}`),
		document(name+", behind", asked, `{`+plain+`,`+member+`}`),
		document(name+", before", asked, `{`+member+`,`+plain+`}`),
	}
}

// documentValues returns documents with a value that is no plain string.
func documentValues() (all []sample) {
	for _, value := range []string{
		"0", "-0", "1", "-1", "01", "+1", "1.", ".5", "-.5", "-", "1e", "1e+", "0x10", "1_000", "1,000", "NaN", "-NaN", "Infinity",
		"-Infinity", "inf", "1f", "1n", "0b1", "0o7", "\u0661",
		"1.0", "1.5", "-0.0", "1e0", "1E0", "1e+0", "1e-0", "10e-1", "1e3", "1E3", "1.0e3", "1.5e1", "15e-1", "0e0", "0e400", "0.0e-400",
		"1e400", "-1e400", "1e-400", "1e308", "1e15", "1e16", "1e20", "1e21", "1e22", "123e18",
		"1e-5", "1e-6", "1e-7", "0.000001", "0.0000001", "0.00001", "0.1", "0.2", "0.3", "0.30000000000000004", "0.123456789012345",
		"0.1234567890123456", "0.12345678901234567", "123456789.12345", "123456789012345", "999999999999999", "999999999999999.5",
		"1234567890123456", "12345678901234567", "9007199254740991", "9007199254740992", "9007199254740993", "9007199254740993.0",
		"9007199254740992.0", "9007199254740992e0", "900719925474099.2e1", "-9007199254740992", "-9007199254740993",
		"9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616", "100000000000000000000",
		"2147483647", "2147483648", "4294967296", "4096", "4096.0", "4096.5", "4.096e3", "40960e-1", "0.5", "2.5", "99.99",
		"1e1", "100e-2", "1.10", "1.100000000000000", "1.1000000000000000000", "1.0000000000000000000", "1.000000000000000000", "1.0000000000000000", "100000000000000000.0", "10000000000000000e-16",
		"123456789012345e-15", "123456789012345e6", "123456789012345e7", "1e021", "1e0000000000000000000003",
		"0.000000000000000000001e21",
		"true", "false", "null", "True", "TRUE", "None", "nil", "undefined", "yes", "T",
		"{}", `{"x":1}`, "[]", `["a"]`, `["a","b"]`, `[["a"]]`, `[null]`, `[1]`, "{", "[", "}", "", "a", "'a'", "`a`", `"a" "b"`,
		`"a"+"b"`, `"a`, `a"`, `"a""`, `("a")`,
		`"\a"`, `"\'"`, `"\x61"`, `"\u61"`, `"\U00000061"`, `"\0"`, `"\v"`, `"\/"`, `"\b"`, `"\f"`, `"\e"`, `"\` + "\n" + `"`, "\"a\nb\"",
		"\"a\tb\"", "\"a\x00b\"", "\"a\x01b\"", "\"a\x7fb\"", `"\u0000"`, `"a\u0000b"`, `"\ud800"`, `"a\udc00"`,
		`"\ud800\ud800"`, `"\udc00\ud800"`, `"\ud83d\ude00"`, `"\uD83D\uDE00"`, `"\ud83dx"`, `"\ud83d\u0061"`, `"\ud83d\\ude00"`,
		`"\uDBFF\uDFFF"`, `"\uFFFE"`, `"\ufeff"`, `"\u001f"`, `"\u007f"`, `"\u0080"`, `"\u00e9"`, `"e\u0301"`, `"\u2028"`,
		`""`, `" "`, `"true"`, `"1"`, `"1.0"`, `"null"`, `"&lt;"`, `"\u003c"`, `"2020-01-01"`, `"2020-01-01T00:00:00Z"`, `"/Date(0)/"`,
		`":a"`, `"^i1"`, `"~a"`,
	} {
		all = append(all, document("token "+quoteShort(value), "model", `{"model":`+value+`}`))
	}
	return all
}

// documentBodies returns documents that not all parsers take, or not as a whole.
func documentBodies() (all []sample) {
	plain := `{"model":"a"}`
	for _, body := range []string{
		plain, `{"model":"a","model":"b"}`, `{"model":"a","model":"a"}`, `{"model":"a","model":null}`, `{"model":null,"model":"b"}`,
		`{"model":"a","model":1}`, `{"model":"a","model":{}}`, `{"model":"a","x":{"model":"b"}}`,
		`{"x":{"model":"b"},"model":"a"}`, `{"x":{"model":"b"}}`, `{"x":1,"x":2,"model":"a"}`, `{"x":{"y":1,"y":2},"model":"a"}`,
		`{"X":1,"x":2,"model":"a"}`, `{"_json":{"model":"b"},"model":"a"}`, `{"data":{"model":"b"}}`,
		`{"body":{"model":"b"},"model":"a"}`,
		" " + plain, "\n" + plain, "\r\n\t " + plain + " \r\n\t", "\f" + plain, "\v" + plain, "\u00a0" + plain, "\u2028" + plain,
		"\u0085" + plain, "\x00" + plain, plain + "\x00", plain + "\n", plain + "\f", plain + "\u00a0", plain + "\ufeff", plain + "\x1a",
		plain + " \x00",
		"\ufeff" + plain, " \ufeff" + plain, "\ufeff\ufeff" + plain, "\ufffe" + plain, plain + "x", plain + ",", plain + ";", plain + "}",
		plain + "]", plain + `{"model":"b"}`, plain + "\n" + `{"model":"b"}`, plain + `,{"model":"b"}`, plain + " 1", plain + "//x",
		plain + "/*x*/", plain + "#x", plain + "null",
		`{/*x*/"model":"a"}`, `{"model"/**/:"a"}`, `{//x` + "\n" + `"model":"a"}`, `{#x` + "\n" + `"model":"a"}`, "//x\n" + plain,
		"/**/" + plain, "#!x\n" + plain, `{"model":"a"/*,"model":"b"*/}`, `{/*"model":"b",*/"model":"a"}`,
		`{"x":"/*","model":"a","y":"*/"}`,
		`{"model":"a",}`, `{,"model":"a"}`, `{"model":"a",,"x":1}`, `{"model":"a" "x":1}`, `{"model":"a";"x":1}`, `{"model"="a"}`,
		`{"model"=>"a"}`, `{"model" "a"}`, `{"model":}`, `{"model"}`, `{"model",:"a"}`, `{:"model":"a"}`, `{"model"::"a"}`,
		`{"x":[1,],"model":"a"}`,
		`{"x":[,1],"model":"a"}`, `{model:"a"}`, `{'model':'a'}`, `{'model':"a"}`, "{`model`:\"a\"}", `{"model":a}`,
		`{1:"b","model":"a"}`, `{null:"b","model":"a"}`, `{"x":01,"model":"a"}`, `{"x":NaN,"model":"a"}`, `{"x":Infinity,"model":"a"}`,
		`{"x":+1,"model":"a"}`, `{"x":1.,"model":"a"}`,
		`{"x":.5,"model":"a"}`, `{"x":0x1,"model":"a"}`, `{"x":'y',"model":"a"}`, `{"x":"\a","model":"a"}`,
		`{"x":"` + "\n" + `","model":"a"}`, `{"x":"` + "\x01" + `","model":"a"}`, `{"x":"` + "\xff" + `","model":"a"}`,
		`{"` + "\xff" + `":1,"model":"a"}`, `{"x":"\ud800","model":"a"}`,
		`{"x":1e999,"model":"a"}`, `{"x":-1e999,"model":"a"}`, `{"x":` + strings.Repeat("9", 400) + `,"model":"a"}`,
		`{"x":0.` + strings.Repeat("9", 400) + `,"model":"a"}`, `{"x":True,"model":"a"}`, `{"x":nul,"model":"a"}`,
		`{"x":truefalse,"model":"a"}`, `{"x":true1,"model":"a"}`, `{"x":1 2,"model":"a"}`,
		`{"x":[1 2],"model":"a"}`, `{"x":[1:2],"model":"a"}`, `{"x":{"y"},"model":"a"}`, `{"x":[},"model":"a"}`, `{"x":{],"model":"a"}`,
		`{"x":"\u12","model":"a"}`, `{"x":"\u12g4","model":"a"}`, `{"x\u0000":1,"model":"a"}`, `{"":1,"model":"a"}`,
		`{"model":"a"`, `{"model":"a`, `{"model":`, `{"model"`, `{"mod`, `{`, `{"model":"a","x"`, `{"model":"a","x":[`,
		`{"model":"a","x":"`, `"model":"a"`, `"model":"a"}`, `model=a`, `model: a`, `"a"`, `"model"`, `1`, `null`, `true`, `[]`, `{}`,
		`[` + plain + `]`, `[` + plain + `,{"model":"b"}]`, `[[` + plain + `]]`,
		`["model","a"]`, `[["model","a"]]`, "", " ", "\n", "\x00", `(` + plain + `)`, `while(1);` + plain, `)]}',` + "\n" + plain,
		`callback(` + plain + `)`, `data: ` + plain, "\x1e" + plain + "\n", `{}` + plain, `null` + plain, plain + plain,
		`{"$ref":"#/x","x":{"model":"b"},"model":"a"}`, `{"model":"a","_method":"PUT"}`, `{"x":"&model=b&","model":"a"}`,
		`<model>b</model>`, "---\nmodel: a\n", `{"^o":"Object","model":"a"}`, `{"^#1":["x"],"model":"a"}`,
	} {
		name := "body " + quoteShort(body)
		all = append(all, document(name, "model", body))
	}
	for _, depth := range []int{20, 100, 101, 200, 400, 512} {
		levels, open, shut := strconv.Itoa(depth)+" levels", strings.Repeat("[", depth), strings.Repeat("]", depth)
		opened, closed := strings.Repeat(`{"y":`, depth), strings.Repeat("}", depth)
		all = append(all,
			document("arrays of "+levels, "model", `{"x":`+open+shut+`,"model":"a"}`),
			document("objects of "+levels, "model", `{"x":`+opened+"1"+closed+`,"model":"a"}`))
	}
	return append(all,
		document("UTF-16LE", "model", utf16LE(plain)), document("UTF-16BE", "model", utf16BE(plain)),
		document("UTF-16LE with a mark", "model", "\xff\xfe"+utf16LE(plain)),
		document("UTF-16BE with a mark", "model", "\xfe\xff"+utf16BE(plain)),
		document("1200 members before", "model", `{`+manyMembers(1200)+`"model":"a"}`),
		document("1200 members before it again", "model", `{"model":"a",`+manyMembers(1200)+`"model":"b"}`),
		document("a name of 300 bytes", "model", `{"`+strings.Repeat("n", 300)+`":1,"model":"a"}`))
}

// manyMembers returns members of an object, each with a comma behind it.
func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`"x` + strconv.Itoa(i) + `":1,`)
	}
	return b.String()
}
