package bodyvalue

import (
	"errors"
	"net/http"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestHeaderTokens has headers of Bedrock's InvokeModel, and such as it should not send.
func TestHeaderTokens(t *testing.T) {
	const in, out, written, read = "Input-Token-Count", "Output-Token-Count", "Cache-Write-Input-Token-Count", "Cache-Read-Input-Token-Count"
	type counts map[string][]string
	for _, row := range []struct {
		what, contentType, encoding string
		counts                      counts
		want                        string
	}{
		{"a text", "application/json", "", counts{in: {"30"}, out: {"12"}}, "42"},
		{"an embedding", "application/json", "", counts{in: {"30"}}, "30"},
		{"cached input", "application/json", "", counts{in: {"1"}, out: {"4000"}, written: {"20"}, read: {"300"}}, "4321"},
		{"nothing", "application/json", "", counts{in: {"0"}, out: {"0"}}, "0"},
		{"the most", "application/json", "", counts{in: {"4503599627370495"}, out: {"1"}}, "4503599627370496"},
		{"a compressed body", "application/json", "gzip", counts{in: {"30"}, out: {"12"}}, "42"},
		{"no counts", "application/json", "", nil, "absent"},
		{"a binary stream", "application/vnd.amazon.eventstream", "", counts{in: {"30"}}, "absent"},
		{"events", "text/event-stream", "", counts{in: {"30"}}, "absent"},
		{"a picture", "image/png", "", counts{in: {"30"}}, "absent"},
		{"below zero", "application/json", "", counts{in: {"-30"}, out: {"12"}}, "header"},
		{"a fraction", "application/json", "", counts{in: {"30"}, out: {"1.5"}}, "header"},
		{"no number", "application/json", "", counts{in: {"30"}, out: {""}}, "header"},
		{"too much", "application/json", "", counts{in: {"4503599627370497"}}, "header"},
		{"far too much", "application/json", "", counts{in: {"30"}, out: {"99999999999999999999"}}, "header"},
		{"too much in all", "application/json", "", counts{in: {"4503599627370496"}, out: {"1"}}, "header"},
		{"one count twice", "application/json", "", counts{in: {"30", "30"}, out: {"12"}}, "header"},
	} {
		header := http.Header{}
		header.Set("Content-Type", row.contentType)
		header.Set("Content-Encoding", row.encoding)
		for name, values := range row.counts {
			for _, value := range values {
				header.Add("x-amzn-bedrock-"+name, value)
			}
		}
		n, err := HeaderTokens(header)
		if row.want == "header" {
			assert.ErrorIf(t, !errors.Is(err, errHeader), "%s: %d, %v", row.what, n, err)
			continue
		}
		checkNumber(t, row.what, n, err, row.want)
	}
}

// TestBody_HeaderTokens has a header that a handler changes after the reading began.
func TestBody_HeaderTokens(t *testing.T) {
	header := http.Header{"Content-Type": {"application/json"}, "X-Amzn-Bedrock-Input-Token-Count": {"30"}}
	plan := new(NumberPlan)
	plan.AddTokens()
	body := plan.NewReader(header)
	header.Del("X-Amzn-Bedrock-Input-Token-Count")
	n, err := body.HeaderTokens()
	checkNumber(t, "tokens", n, err, "30")
}
