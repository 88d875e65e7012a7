package main

import "strings"

// urlencodedBodies returns bodies whose fields some parser may cut elsewhere.
func urlencodedBodies() (all []sample) {
	for _, body := range []string{
		"email=a", "email=a&email=b", "email=a&email=a", "email=a&x=1&email=b", "email=&email=b", "email=a&email=", "email&email=b",
		"email=a&email",
		"email", "email=", "=a&email=b", "&email=a", "email=a&", "&&email=a&&", "email==a", "email=a=b", "=email=a", "x=1&&email=a",
		"=email", "==email=a", "email=a&=email=b", "=email=b&email=a", "email=a==", "email=a%3Db", "x=a=b&email=a",
		"x&email=a",
		"email=a;email=b", "x=1;email=b", "email=a;", ";email=a", "email=a;x=1", "email=a&x=1;email=b", "x=1;&email=a",
		"email=a%", "email=a%4", "email=a%zz", "x=%zz&email=a", "%zz=1&email=a", "email=%u0061", "email=a%00b", "x=%00&email=a",
		"email=a%26email=b", "email=a%26email%3Db", "email%3Da", "email%3Da=b", "email=a&%65mail=b", "%65mail=a", "email=a&%2565mail=b",
		"email=a&amp;email=b", "email=a&amp;x=b", "email=a,email=b", "email=a|email=b", "email:a", "email=a\\u0026email=b",
		"email=a\r\n", "email=a\n", "\r\nemail=a", "\nemail=a", "x=1\r\nemail=b", "x=1\nemail=b", "email=a\r\nemail=b",
		"email=a\r\n&email=b",
		"email=a\x00", "email=a\x00&email=b", "\x00email=a", "email=a\tb", "email=a b", "email=a ", " email=a", "  email=b&email=a",
		"email =a",
		"email= a", "email=a & email=b", "email=a& email=b", "\temail=a", "\x0bemail=a", "\xc2\xa0email=a", "\xe2\x80\xa8email=a",
		"\xef\xbb\xbfemail=a", "\xef\xbb\xbfemail=b&email=a", "%EF%BB%BFemail=b&email=a", "email=a&\xef\xbb\xbfemail=b",
		"?email=a", "?email=b&email=a", "??email=a", "#email=a", "#email=b&email=a", "/email=a", "/?email=b&email=a",
		"http://x/?email=b&email=a",
		"!email=a", "'email=a'", `"email=a"`, "(email=a)", "email=a#x", "email=a?x=1", "email=a#&email=b", "email=a/*&email=b*/",
		"email=b\xc3\xb3b", "email=b\xf3b", "x=\xc3\xb3&email=a", "\xc3\xb3=1&email=a",
		"_charset_=iso-8859-1&email=%C3%A9", "_charset_=utf-8&email=%C3%A9", "email=%C3%A9&_charset_=iso-8859-1",
		"_CHARSET_=iso-8859-1&email=%C3%A9",
		"utf8=%E2%9C%93&email=%C3%A9", "utf8=%26%2310003%3B&email=%26%23233%3B", "email=%E9", "email=%u00E9",
		"--" + boundary + "\r\nContent-Disposition: form-data; name=\"email\"\r\n\r\nb\r\n--" + boundary + "--\r\n",
		"", " ", "&", "=", "&=&", "+", "%20",
		"email=a&_method=PUT", "_method=DELETE&email=a", "x[]=1&x=2&email=a", "x=1&x[y]=2&email=a", "x[y]=1&x[]=2&email=a", "x[=1&email=a",
		"[]=1&email=a", "[x]=1&email=a", "[=1&email=a", "]=1&email=a", ".=1&email=a", "x.y=1&x=2&email=a",
	} {
		name := body
		if body == "" {
			name = "no byte"
		}
		all = append(all, urlencoded("body "+quoteShort(name), "email", body))
	}
	for _, body := range []string{
		`{"model":"x"}`, ` {"a":"&model=v&","model":"x"}`, "\n" + `{"a":"&model=v&","model":"x"}`, "\t" + `{"a":"&model=v&","model":"x"}`,
		"\xef\xbb\xbf" + `{"a":"&model=v&","model":"x"}`, `{"model":"x","a":"&model=v"}`, `{"model":"x"}&model=v`, `["&model=v"]`,
		`"&model=v"`,
		`/**/{"a":"&model=v&","model":"x"}`, `//&model=v&` + "\n" + `{"model":"x"}`, `[{"model":"x","a":"&model=v&"}]`,
		`+{"a":"&model=v&","model":"x"}`,
		`{"model=v&x":1,"model":"x"}`, `model={"model":"x"}`, `model=v&{"model":"x"}`, `1&model=v`, `true&model=v`, `null&model=v`,
		`-&model=v`,
		`%7B"a":"&model=v&","model":"x"%7D`,
	} {
		s := urlencoded("JSON "+quoteShort(body), "model", body)
		s.path = "model"
		all = append(all, s)
	}
	all = append(all,
		urlencoded("the field behind 999 others", "email", strings.Repeat("x=1&", 999)+"email=a"),
		urlencoded("the field behind 1000 others", "email", strings.Repeat("x=1&", 1000)+"email=a"),
		urlencoded("the field behind 1200 others", "email", strings.Repeat("x=1&", 1200)+"email=a"),
		urlencoded("the field before 1200 others and again", "email", "email=a"+strings.Repeat("&x=1", 1200)+"&email=b"),
		urlencoded("behind a name of 300 bytes", "email", strings.Repeat("n", 300)+"=1&email=a"),
		urlencoded("behind a value of 20000 bytes", "email", "x="+strings.Repeat("v", 20_000)+"&email=a"))
	return all
}
