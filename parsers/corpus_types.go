package main

import "strings"

// contentTypes returns bodies under types that some parser takes for another one. All readers are asked.
func contentTypes() (all []sample) {
	const form, doc = "model=v", `{"model":"x"}`
	const mixed = `{"a":"&model=v&","model":"x"}`
	parts := part("model", "p") + end
	for _, t := range []struct {
		types []string
		body  string
	}{
		{nil, form}, {nil, doc}, {nil, parts}, {[]string{""}, form}, {[]string{""}, doc}, {[]string{" "}, form},
		{[]string{"text/plain"}, form}, {[]string{"text/plain"}, doc}, {[]string{"text/plain"}, parts},
		{[]string{"application/octet-stream"}, form}, {[]string{"application/octet-stream"}, doc}, {[]string{"*/*"}, doc},
		{[]string{"text/json"}, doc}, {[]string{"text/html"}, form}, {[]string{"application/javascript"}, doc},
		{[]string{urlencodedType, jsonType}, form}, {[]string{urlencodedType, jsonType}, doc}, {[]string{jsonType, urlencodedType}, form},
		{[]string{jsonType, urlencodedType}, doc}, {[]string{urlencodedType, multipartType}, form},
		{[]string{multipartType, urlencodedType}, parts},
		{[]string{multipartType, urlencodedType}, form}, {[]string{jsonType, jsonType}, doc},
		{[]string{urlencodedType, urlencodedType}, form}, {[]string{jsonType + ", " + urlencodedType}, doc},
		{[]string{jsonType + "," + urlencodedType}, form}, {[]string{urlencodedType + ", " + jsonType}, form},
		{[]string{urlencodedType + ", " + jsonType}, doc}, {[]string{urlencodedType + "; application/json"}, form},
		{[]string{urlencodedType + "; application/json"}, doc}, {[]string{urlencodedType + "; x=application/json"}, form},
		{[]string{urlencodedType + "; x=application/json"}, doc},
		{[]string{jsonType + "; " + urlencodedType}, doc}, {[]string{jsonType + "; x=" + urlencodedType}, mixed},
		{[]string{jsonType + "; x=" + `"` + urlencodedType + `"`}, mixed}, {[]string{jsonType + "; x=multipart/form-data"}, doc},
		{[]string{jsonType + `; boundary=AaB`}, doc},
		{[]string{"Application/JSON"}, doc}, {[]string{"APPLICATION/X-WWW-FORM-URLENCODED"}, form},
		{[]string{"Multipart/Form-Data; Boundary=AaB"}, parts}, {[]string{"application/json "}, doc},
		{[]string{" application/json"}, doc}, {[]string{"application/json;"}, doc}, {[]string{"application/json; "}, doc},
		{[]string{"application/json;;"}, doc}, {[]string{"application/json ; x=1"}, doc}, {[]string{"application/json; x"}, doc},
		{[]string{"application/json; =x"}, doc}, {[]string{"application/json; x="}, doc}, {[]string{"application/json; x=\"y"}, doc},
		{[]string{"application/json; x=y z"}, doc},
		{[]string{"application/json x"}, doc}, {[]string{"application / json"}, doc}, {[]string{"application/json/x"}, doc},
		{[]string{"application/jsonx"}, doc}, {[]string{"application/json+x"}, doc}, {[]string{"application/x-json"}, doc},
		{[]string{"json"}, doc}, {[]string{"application/"}, doc}, {[]string{"/json"}, doc},
		{[]string{"application/vnd.api+json"}, doc}, {[]string{"application/problem+json"}, doc}, {[]string{"application/x+json"}, mixed},
		{[]string{"application/vnd.api+json"}, mixed}, {[]string{"application/json"}, mixed}, {[]string{"application/+json"}, doc},
		{[]string{"application/x+JSON"}, doc}, {[]string{"application/x+json-seq"}, doc}, {[]string{"application/json-seq"}, doc},
		{[]string{"text/x+json"}, doc},
		{[]string{"application/x-www-form-urlencoded+json"}, form}, {[]string{"application/x-www-form-urlencoded+json"}, doc},
		{[]string{"application/x-www-form-urlencoded+json"}, mixed}, {[]string{"multipart/form-data+json; boundary=AaB"}, doc},
		{[]string{"application/form-data+json"}, doc}, {[]string{"application/json+xml"}, doc},
		{[]string{"application/ld+json; profile=\"http://x/y\""}, doc}, {[]string{"application/json; odata=verbose"}, doc},
		{[]string{"application/json; q=1"}, doc}, {[]string{"application/x-ndjson"}, doc}, {[]string{"application/json5"}, doc},
		{[]string{"application/graphql+json"}, doc}, {[]string{"application/csp-report"}, doc},
		{[]string{"application/x-www-form-urlencoded;"}, form}, {[]string{"application/x-www-form-urlencoded; x=1"}, form},
		{[]string{"application/x-www-form-urlencoded x"}, form}, {[]string{"application/x-www-form-urlencodedx"}, form},
		{[]string{"x-www-form-urlencoded"}, form}, {[]string{"application/www-form-urlencoded"}, form},
		{[]string{"application/x-url-encoded"}, form}, {[]string{"application/x-www-form-urlencoded; boundary=AaB"}, form},
		{[]string{"application/x-www-form-urlencoded; boundary=AaB"}, parts}, {[]string{"application/x-www-form-urlencoded"}, parts},
		{[]string{"application/json"}, parts}, {[]string{"application/json"}, form},
		{[]string{"multipart/form-data"}, parts}, {[]string{"multipart/form-data; boundary="}, parts},
		{[]string{`multipart/form-data; boundary="AaB"`}, parts}, {[]string{`multipart/form-data; boundary="AaB`}, parts},
		{[]string{"multipart/form-data; boundary='AaB'"}, parts}, {[]string{"multipart/form-data;boundary=AaB"}, parts},
		{[]string{"multipart/form-data;  boundary=AaB"}, parts}, {[]string{"multipart/form-data; boundary =AaB"}, parts},
		{[]string{"multipart/form-data; boundary= AaB"}, parts}, {[]string{"multipart/form-data, boundary=AaB"}, parts},
		{[]string{"multipart/form-data boundary=AaB"}, parts}, {[]string{multipartType + ";"}, parts},
		{[]string{multipartType + "; x=1"}, parts}, {[]string{multipartType + ", x"}, parts}, {[]string{multipartType + " x"}, parts},
		{[]string{multipartType + "; boundary=X"}, parts}, {[]string{"multipart/form-data; boundary=X; boundary=AaB"}, parts},
		{[]string{"multipart/form-data; x=\"; boundary=X\"; boundary=AaB"}, parts},
		{[]string{"multipart/form-data; xboundary=X; boundary=AaB"}, parts},
		{[]string{"multipart/form-data; boundary*=utf-8''AaB"}, parts},
		{[]string{"multipart/form-data; boundary*0=Aa; boundary*1=B"}, parts}, {[]string{"multipart/form-data; BOUNDARY=AaB"}, parts},
		{[]string{`multipart/form-data; boundary="A\aB"`}, parts},
		{[]string{"multipart/mixed; boundary=AaB"}, parts}, {[]string{"multipart/related; boundary=AaB"}, parts},
		{[]string{"multipart/x; boundary=AaB"}, parts}, {[]string{"multipart/form-datax; boundary=AaB"}, parts},
		{[]string{"form-data; boundary=AaB"}, parts}, {[]string{multipartType}, form}, {[]string{multipartType}, doc},
		{[]string{multipartType + "; charset=utf-8"}, parts}, {[]string{"multipart/form-data; charset=utf-8; boundary=AaB"}, parts},
		{[]string{multipartType + "; charset=utf-16le"}, parts}, {[]string{"application/soap+xml"}, doc},
		{[]string{"application/xml"}, doc}, {[]string{"application/yaml"}, doc}, {[]string{"application/msgpack"}, doc},
	} {
		name := "no type"
		if len(t.types) > 0 {
			name = "type " + quoteShort(strings.Join(t.types, " | "))
		}
		all = append(all, sample{
			name: name + ", body " + quoteShort(t.body), field: "model", path: "model",
			types: t.types, body: t.body,
		})
	}
	for _, boundary := range []string{
		"a-_.+B9", "----WebKitFormBoundary7MA4YWxkTrZu0gW",
		strings.Repeat("a", 70), strings.Repeat("a", 71), "a b", "a'b", "a(b)", "a,b", "a/b",
		"a:b", "a=b", "a?b", "a;b", "-", "--", "a*b", "a\u00f3b", "a%20b", "a\\b", "a{b}", "0",
	} {
		for _, quote := range []string{"", `"`} {
			s := multipart("boundary "+quoteShort(quote+boundary+quote), "model", strings.ReplaceAll(parts, "AaB", boundary))
			s.types = []string{"multipart/form-data; boundary=" + quote + boundary + quote}
			all = append(all, s)
		}
	}
	return append(all, charsets()...)
}

// charsets returns bodies of UTF-8 under other charsets.
func charsets() (all []sample) {
	for _, parameter := range []string{
		"charset=utf-8", "charset=UTF-8", `charset="utf-8"`, "charset=utf8", "charset='utf-8'", "charset=utf-8 ", "charset =utf-8",
		"charset= utf-8", "charset=", `charset=""`, "charset", "charset=x", "charset=unicode-1-1-utf-8", "charset=utf-8-sig",
		"charset=us-ascii", "charset=iso-8859-1",
		"charset=latin1", "charset=windows-1252", "charset=utf-16", "charset=utf-16le", "charset=utf-16be", "charset=utf-32",
		"charset=utf-7", "charset=shift_jis", "charset=gbk", "charset=ebcdic-cp-us", "charset=utf-8; charset=iso-8859-1",
		"charset=iso-8859-1; charset=utf-8", "charset=utf-8,iso-8859-1",
		`x="; charset=iso-8859-1"`, `x="; charset=utf-16le"`, "xcharset=iso-8859-1", "charset*=utf-8''iso-8859-1", "charset*0=iso-8859-1",
		"charset=utf-8; xcharset=iso-8859-1", "CHARSET=ISO-8859-1", "charset=\"iso-8859-1", "encoding=iso-8859-1", "charset:iso-8859-1",
	} {
		for _, t := range []struct{ kind, body string }{
			{urlencodedType, "model=b%C3%B3b"}, {jsonType, "{\"model\":\"b\u00f3b\"}"}, {jsonType, `{"model":"+AGE-"}`},
			{multipartType, part("model", "b\u00f3b") + end},
		} {
			kind := t.kind + "; " + parameter
			s := sample{name: "type " + quoteShort(kind) + ", body " + quoteShort(t.body), types: []string{kind}, body: t.body}
			if t.kind == jsonType {
				s.path = "model"
			} else {
				s.field = "model"
			}
			all = append(all, s)
		}
	}
	little := document("UTF-16LE under its charset", "model", utf16LE(`{"model":"a"}`))
	big := document("UTF-16BE under UTF-16", "model", utf16BE(`{"model":"a"}`))
	little.types, big.types = []string{jsonType + "; charset=utf-16le"}, []string{jsonType + "; charset=utf-16"}
	return append(all, little, big)
}

// queries returns bodies with a query beside them.
func queries() (all []sample) {
	for i, query := range []string{
		"email=b", "email", "email=", "Email=b", "email=b&email=c", "x=1&email=b", "x=1;email=b", ";email=b", "email=b;x=1", "x&email=b",
		"&email=b", "?email=b", "??email=b", "#email=b", "email%5B%5D=b", "email[]=b", "email[x]=b", "%5Bemail%5D=b", "%65mail=b",
		"e%6Dail=b", "email%00=b", "+email=b",
		"%20email=b", "email+=b", "email=b&x=%zz", "x=%zz&email=b", "%zz&email=b", "email%zz=b", "email=%zz", "email%=b",
		"%EF%BB%BFemail=b", "email_hint=b", "emailx=b", "x=email=b", "x=1%26email=b", "x=1%3Bemail=b", "email.x=b", "email.=b",
		"email%2E=b", "email:b", "email,b", "email/x=b", "&amp;email=b", "x=1&amp;email=b",
		"email%3Db", "email%3D=b", "=email=b", "==email", "%26email=b", "_method=PUT", "_format=json", "format=json", "x", "",
	} {
		name := "query " + quoteShort(query)
		samples := []sample{
			urlencoded(name, "email", "email=a"), urlencoded(name+", the body without it", "email", "other=a"),
			urlencoded(name+", no body", "email", ""),
			document(name, "model", `{"model":"a"}`), document(name+", the body without it", "model", `{"other":"a"}`),
		}
		if i == 0 {
			samples = append(samples,
				urlencoded(name+", an empty value", "email", "email="),
				multipart(name, "email", part("email", "a")+end), multipart(name+", the body without it", "email", part("other", "a")+end),
				document(name+", null", "model", `{"model":null}`), document(name+", two levels", "user.email", `{"user":{"email":"a"}}`),
				document(name+", the second name alone", "user.email", `{"email":"a"}`),
				document(name+", two levels without the name", "user.email", `{"x":1}`))
		}
		for _, s := range samples {
			s.query = query
			if s.path == "model" {
				s.query = strings.ReplaceAll(strings.ReplaceAll(query, "email", "model"), "%65mail", "%6Dodel")
				s.query = strings.ReplaceAll(s.query, "e%6Dail", "m%6Fdel")
			}
			if s.path == "user.email" {
				s.query = strings.ReplaceAll(query, "email", "user[email]")
			}
			all = append(all, s)
		}
	}
	return all
}
