package adminapi

import (
	"encoding/json"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestData has bodies of text and of bytes, and reads their JSON back.
func TestData(t *testing.T) {
	for body, want := range map[string]string{
		"":          `""`,
		"a=b\r\n":   `"a=b\r\n"`,
		"\u0000é😀":  `"\u0000é😀"`,
		"\xff":      `{"base64":"/w=="}`,
		"é\xc3 abc": `{"base64":"w6nDIGFiYw=="}`,
	} {
		text := assert.NoError(json.Marshal(ExplainRequest{Data: new(Data(body))}))(t)
		assert.Equal(t, string(text), `{"method":"","url":"","headers":null,"client_ip":"","data":`+want+`}`, "the JSON")
		var back ExplainRequest
		assert.Must(t, json.Unmarshal(text, &back))
		assert.Equal(t, string(*back.Data), body, "the body")
	}
}

// TestHasHalfPair has escapes that are no half of a surrogate pair in front of one that is.
func TestHasHalfPair(t *testing.T) {
	for text, want := range map[string]bool{
		``: false, `"\\ud800"`: false, `"\n\ud83d\ude00\\"`: false, `\`: false, `"\n\\\ud800"`: true, `"\ud83d\ude00\ude00"`: true,
	} {
		assert.Equal(t, hasHalfPair([]byte(text)), want, "half a pair in %s", text)
	}
}
