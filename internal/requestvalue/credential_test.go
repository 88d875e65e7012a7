package requestvalue

import (
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
)

func authorization(text string) bodyvalue.Value { return Authorization([]string{text}, nil) }

func TestAuthorization(t *testing.T) {
	const jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0."
	signature := strings.Repeat("Ab0_", 11)
	lowered := strings.ToLower(jwt + signature[:40])
	wantShown(t, authorization, map[string]string{
		"":                                     "-",
		"Bearer abc":                           "abc",
		"bEARER\t  ABC":                        "abc",
		"Token abc":                            "abc",
		"abc":                                  "abc",
		"Bearer abc==":                         "abc==",
		"Bearer":                               "bearer",
		"Bearer ==":                            "!credential",
		"Bearer abc;1":                         "!credential",
		"Bearer abc, x":                        "!credential",
		`Bearer "abc"`:                         "!credential",
		"Bearer token=abc":                     "!credential",
		"x Bearer abc":                         "!credential",
		"Bearer\u00a0abc":                      "!credential",
		"Bearer " + jwt + signature:            lowered,
		jwt + signature:                        lowered,
		"Bearer " + jwt + signature[:43] + "9": lowered,
		"Bearer " + jwt + signature + "=":      lowered,
		"Bearer " + jwt + signature + ".":      "!jwt",
		"Bearer " + jwt + "a+b/":               "!jwt",
		"Bearer eyJhbGciOiJ":                   "eyjhbgcioij",
		"Bearer eyJh.abc":                      "eyjh.abc",
		"Bearer sk.live.abc":                   "sk.live.abc",
		`Digest username="bob", nc=00000001`:   `Digest username="bob", nc=00000001`,
		"AWS4-HMAC-SHA256 Credential=A/b, SignedHeaders=host, Signature=ab": "AWS4-HMAC-SHA256 Credential=A/b, SignedHeaders=host, Signature=ab",
		`OAuth oauth_token="a", oauth_nonce="b"`:                            `OAuth oauth_token="a", oauth_nonce="b"`,
		`Digest username="bob", x="Bearer abc"`:                             "!credential",
	})
	assert.Equal(t, shown(Authorization([]string{"Bearer abc", "Bearer abc"}, nil)), "!repeated", "of two fields")
}

func TestAuthorization_basic(t *testing.T) {
	usual := authorization("Basic YWxpY2U6cHc=").Text()
	assert.Equal(t, usual, "basic:alice:ba87b66806fd2d0b", "of the usual spelling")
	for _, same := range []string{
		"bASIC  YWxpY2U6cHc", "Basic YWxpY2U6cHd=", "Basic QWxpY2U6cHc=", "Basic YWxpY2U6cHc6eA==", // unused bits, Alice:pw, alice:pw:x
	} {
		assert.Equal(t, authorization(same).Text(), usual, "of %q", same)
	}
	for _, unreadable := range []string{
		"Basic YWxp!Y2U6cHc=", "Basic YWxpY2U6cHc=x", "Basic YWxp Y2U6cHc=", "Basic YWxpY2U6cHc==", "Basic YWxpY2U", "Basic", "Basic -_-_",
	} {
		v := authorization(unreadable)
		assert.ErrorIf(t, unreadable != "Basic" && shown(v) != "!basic", "%q is %s", unreadable, shown(v))
	}
	other := authorization("Basic YWxpY2U6cHg=").Text()
	assert.ErrorIf(t, other == usual, "another password has the same value")
	secret := Authorization([]string{"Basic YWxpY2U6cHc="}, []byte("secret")).Text()
	assert.ErrorIf(t, secret == usual, "a secret changes nothing")
}

func TestCredentialUser(t *testing.T) {
	wantShown(t, func(text string) bodyvalue.Value { return CredentialUser([]string{text}) }, map[string]string{
		"Basic QWxpY2U6cHc=": "alice",
		"Basic OnB3":         "-",
		"Basic !":            "!basic",
		"Bearer abc":         "-",
		"":                   "-",
	})
}
