package main

import "slices"

const authorization = "Authorization"

func authorizationInputs() []input {
	return slices.Concat(ofHeader(authorizations, authorization, []string{
		"Bearer abc", "bearer abc", "BEARER abc", "bEaReR abc", "Bearer  abc", "Bearer   abc", "Bearer\tabc",
		"Bearer \tabc", "   Bearer abc", "\tBearer abc", "Bearer abc ", "Bearer abc\t", "Bearerabc", "abc",
		"Bearer abc, Bearer def", "Bearer abc,Bearer def", "Bearer def, Bearer abc", "Bearer abc, x", "Bearer abc,",
		"Bearer abc x", "Bearer abc;x", `Bearer "abc"`, `Bearer token="abc"`, "Bearer token=abc", "Bearer abc=",
		"Bearer ABC", "Bearer: abc", "Bearer=abc", "x Bearer abc", "Basic x Bearer abc", "Token abc", "token abc",
		"Token  abc", "Token\tabc", "Token token=abc", `Token token="abc"`, `Token token="abc", a=b`, "Token abc ",
		`Token "abc"`, "Token token = abc", "ApiKey abc", "apikey abc", "Bearer\xa0abc", "Bearer \xc2\xa0abc",
		"Bearer\x0babc", "Bearer abc\x0c", "Bearer %61bc", "Bearer abc\x85", "Bearer\r\n abc", "", "Bearer", "Bearer ",
		"Bearer abc\xa0", "Bearer abc\x7f", "Bearer a=b", "Bearer 1|abc", "Bearer a:b", `Bearer \abc`, "Token token=abc;x",
		"Token tokenabc", "Bearer\xa0 abc", "Bearer 'abc'", "Bearer <abc>", "Token a=1, token=abc",
	}), ofLines(authorizations, [][]string{
		{"Authorization: Bearer abc", "Authorization: Bearer def"}, {"Authorization: Bearer abc", "Authorization: Bearer abc"},
		{"Authorization: Basic YWxpY2U6cHc=", "Authorization: Bearer abc"}, {"Authori_zation: Bearer abc"}, {"AUTHORIZATION: Bearer abc"},
		{"Proxy-Authorization: Bearer abc"},
	}), []input{
		{authorizations, "/r?access_token=abc", nil}, {authorizations, "/r?access_token=abc", []string{"Authorization: Bearer abc"}},
		{authorizations, "/r?access_token=abc", []string{"Authorization: Bearer def"}},
	})
}

// loginInputs spell the login of alice with the password pw, and a few others.
func loginInputs() []input {
	return slices.Concat(ofHeader(logins, authorization, []string{
		"Basic YWxpY2U6cHc=", "basic YWxpY2U6cHc=", "BASIC YWxpY2U6cHc=", "Basic  YWxpY2U6cHc=", "Basic\tYWxpY2U6cHc=",
		"Basic YWxpY2U6cHc", "Basic YWxpY2U6cHc==", "Basic YWxpY2U6cHd=", "Basic YWxpY2U6cHf=", "Basic YWxpY2U6cHd",
		"Basic YWxp Y2U6cHc=", "Basic YWxp\tY2U6cHc=", "Basic YWxpY2U6cHc= ", "Basic YWxp!Y2U6cHc=", "Basic YWxp-Y2U6cHc=",
		"Basic YWxp.Y2U6cHc=", "Basic YWxpY2U6cHc=AAAA", "Basic YWxpY2U6cHc=x", "Basic YWxpY2U6cHc= x",
		"Basic YWxpY2U6cHc=, Basic Ym9iOnB3", `Basic "YWxpY2U6cHc="`, "Basic QWxpY2U6cHc=", "Basic YWxpY2U6cHcy",
		"Basic IGFsaWNlOnB3", "Basic YWxpY2UgOnB3", "Basic YWxpY2U6cHcK", "Basic YWxpY2UAOnB3", "Basic YWxpY2U=",
		"Basic YWxpY2U6", "Basic YWxpY2U6cHc6eA==", "Basic 77u/YWxpY2U6cHc=", "Basic YWxpPz5+OnDDvw==",
		"Basic YWxpPz5-OnDDvw==", "Basic 6Tpwdw==", "Basic w6k6cHc=", "BasicYWxpY2U6cHc=", "Basic YWxpY2U6cA",
		"Basic YWxpY2U6cA==", "Basic YWxpY2U6cA=", "Basic YWxpY2U6cB==", "Basic YWxpY2U6cAF3",
	}), ofLines(logins, [][]string{{"Authorization: Basic YWxpY2U6cHc=", "Authorization: Basic Ym9iOnB3"}}))
}

// jwtInputs spell a token of HS256 with the key "secret".
func jwtInputs() []input {
	return ofHeader(jwts, authorization, []string{
		"Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSJ9.c3brGQkxoiCgrl5LGiV0go9qgN0MtrdnDBCCfJ45f_Q",
		"Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSJ9.c3brGQkxoiCgrl5LGiV0go9qgN0MtrdnDBCCfJ45f_R",
		"Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSJ9.c3brGQkxoiCgrl5LGiV0go9qgN0MtrdnDBCCfJ45f_Q=",
		"Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSJ9.c3brGQkxoiCgrl5LGiV0go9qgN0MtrdnDBCCfJ45 f_Q",
		"Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSJ9.c3brGQkxoiCgrl5LGiV0go9qgN0MtrdnDBCCfJ45f/Q",
		"bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSJ9.c3brGQkxoiCgrl5LGiV0go9qgN0MtrdnDBCCfJ45f_Q",
		"Bearer  eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSJ9.c3brGQkxoiCgrl5LGiV0go9qgN0MtrdnDBCCfJ45f_Q",
		"Bearer\teyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSJ9.c3brGQkxoiCgrl5LGiV0go9qgN0MtrdnDBCCfJ45f_Q",
		"Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSJ9.c3brGQkxoiCgrl5LGiV0go9qgN0MtrdnDBCCfJ45f_Q.",
		"Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSJ9.c3brGQkxoiCgrl5LGiV0go9qgN0MtrdnDBCCfJ45!f_Q",
		"Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSJ9.c3brGQkxoiCgrl5LGiV0go9qgN0MtrdnDBCCfJ45f_Q;",
		"JWT eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSJ9.c3brGQkxoiCgrl5LGiV0go9qgN0MtrdnDBCCfJ45f_Q",
		"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSJ9.c3brGQkxoiCgrl5LGiV0go9qgN0MtrdnDBCCfJ45f_Q",
		"Token eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSJ9.c3brGQkxoiCgrl5LGiV0go9qgN0MtrdnDBCCfJ45f_Q",
		"Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSJ9.c3brGQkxoiCgrl5LGiV0go9qgN0MtrdnDBCCfJ45f_Q,x",
		`Bearer "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSJ9.c3brGQkxoiCgrl5LGiV0go9qgN0MtrdnDBCCfJ45f_Q"`,
	})
}
