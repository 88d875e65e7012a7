package bodyvalue

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// contentTypes are those of the file of tokens.
var contentTypes = map[string]string{"json": "application/json", "events": "text/event-stream", "lines": "application/x-ndjson"}

// TestBody_Tokens reads the file of tokens in pieces, beside sums whose paths lead to the same numbers.
func TestBody_Tokens(t *testing.T) {
	for _, row := range rows(t, "tokens.txt", 4) {
		text := strings.ReplaceAll(row[1], `\n`, "\n")
		for _, sums := range [][]string{nil, {"usage.total_tokens", "0.usage.total_tokens", "1.usageMetadata.totalTokenCount", "12.a"}} {
			for _, length := range []int{len(text), 1, 2, 3, 7} {
				body := readTokens(t, sums, contentTypes[row[0]], text, length)
				n, err := body.Tokens()
				checkNumber(t, "tokens of "+text, n, err, row[2])
				n, err = body.TokenCost(10, 5)
				checkNumber(t, "cost of "+text, n, err, row[3])
			}
		}
	}
}

// readTokens reads a body for its tokens. Sums are planned before and behind them.
func readTokens(t *testing.T, sums []string, contentType, text string, length int) *NumberReader {
	t.Helper()
	plan := new(NumberPlan)
	for i, sum := range sums {
		if plan.Add(assert.NoError(ParseSum(sum))(t)); i == 1 {
			plan.AddTokens()
		}
	}
	plan.AddTokens()
	body := plan.NewReader(http.Header{"Content-Type": {contentType}})
	for rest := text; rest != ""; rest = rest[min(length, len(rest)):] {
		body.Write([]byte(rest[:min(length, len(rest))]))
	}
	body.End()
	return body
}

// checkNumber checks a number of a file, or the error that it names.
func checkNumber(t *testing.T, what string, n int64, err error, want string) {
	t.Helper()
	wrong := map[string]error{"absent": ErrNoNumber, "invalid": ErrInvalidJSON, "out of range": errRange}
	if wantErr := wrong[want]; wantErr != nil {
		assert.ErrorIf(t, !errors.Is(err, wantErr), "%s: %d, %v; want %s", what, n, err, want)
		return
	}
	assert.ErrorIf(t, err != nil || strconv.FormatInt(n, 10) != want, "%s: %d, %v; want %s", what, n, err, want)
}

// TestBody_Sum_tokens has sums whose paths with an index end where those of tokens do.
func TestBody_Sum_tokens(t *testing.T) {
	sums := []string{"0.usage.total_tokens", "1.usage.total_tokens", "1", "usage.total_tokens", "0.a"}
	body := readTokens(t, sums, contentTypes["json"], `[{"usage":{"total_tokens":3},"a":4},{"usage":{"total_tokens":5}}]`, 100)
	for i, want := range []string{"3", "5", "absent", "absent", "4"} {
		n, err := body.Sum(i, nil)
		checkNumber(t, sums[i], n, err, want)
	}
	n, err := body.Tokens()
	checkNumber(t, "tokens", n, err, "5")
}

// TestBody_TokenCost_bounds has bodies that are not read, and estimates at their bounds.
func TestBody_TokenCost_bounds(t *testing.T) {
	body := readTokens(t, nil, "text/html", "{}", 1)
	_, err := body.TokenCost(1, 1)
	assert.ErrorIf(t, !errors.Is(err, errType), "of HTML: %v", err)
	for _, c := range []struct{ input, least, want int64 }{{0, 0, 1}, {0, 9, 9}, {8, 9, 9}, {9, 9, 10}, {largestNumber, 1, largestNumber}} {
		n, err := readTokens(t, nil, contentTypes["lines"], "{}", 1).TokenCost(c.input, c.least)
		assert.ErrorIf(t, n != c.want || err != nil, "input %d, least %d: %d, %v; want %d", c.input, c.least, n, err, c.want)
	}
}

// FuzzBody_tokens reads a body in one piece and in pieces for tokens. Sums beside them must stay as they are.
func FuzzBody_tokens(f *testing.F) {
	f.Add([]byte(`[{"usage":{"total_tokens":1}},{"0":{"b":7}},{"a":[3]}]`), []byte{1}, byte(0))
	for _, row := range rows(f, "tokens.txt", 4) {
		f.Add([]byte(strings.ReplaceAll(row[1], `\n`, "\n")), []byte{1, 30, 2}, byte(len(row[0])))
	}
	for i, seed := range fuzzedSeeds {
		f.Add([]byte(seed), []byte{3, 1}, byte(i))
	}
	f.Fuzz(func(t *testing.T, body, lengths []byte, kind byte) {
		header := http.Header{"Content-Type": {forms[int(kind)%len(forms)].contentType}}
		alone, both := fuzzedPlan(t), fuzzedPlan(t)
		both.AddTokens()
		sums, one, pieces, rest := alone.NewReader(header), both.NewReader(header), both.NewReader(header), body
		for i := 0; len(rest) > 0; i++ {
			n := len(rest)
			if len(lengths) > 0 {
				n = min(n, 1+int(lengths[i%len(lengths)]))
			}
			pieces.Write(rest[:n])
			rest = rest[n:]
		}
		sums.Write(body)
		one.Write(body)
		sums.End()
		one.End()
		pieces.End()
		n, err := one.TokenCost(3, 2)
		m, errPieces := pieces.TokenCost(3, 2)
		assert.ErrorIf(t, n != m || !errors.Is(errPieces, err), "%d, %v in one piece; %d, %v in pieces", n, err, m, errPieces)
		if !json.Valid(body) {
			return // what no path leads into is not examined
		}
		for i, text := range fuzzedSums {
			n, err := sums.Sum(i, fuzzedPrice)
			m, errBoth := one.Sum(i, fuzzedPrice)
			assert.ErrorIf(t, n != m || !errors.Is(errBoth, err), "%s: %d, %v alone; %d, %v beside tokens", text, n, err, m, errBoth)
		}
	})
}
