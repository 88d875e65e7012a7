package bodyvalue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// fuzzedSums lead to places that the seeds have.
var fuzzedSums = []string{"a", "a.b", "a.0", "a.1.b", "b|a", "a+b", "0", "1.a", "a.b.a.b", "é", "a-b", "0.5*a.0-{price}*a.1|b+3*a.1"}

// fuzzedSeeds are bodies that take every way through the reader.
var fuzzedSeeds = []string{
	`{"a":1,"b":{"a":[1,2,{"b":3}]}}`, `{"a":{"b":12.5e1}}`, `{"a":[1,{"b":2}],"b":-0}`, `[1,{"a":5}]`,
	`{"\u0061":"x\\\"]","b":4503599627370497,"a":1}`, `{"é":1,"\u00e9":2,"\ud83d":3}`,
	`{"x":[[1.5,-2,3e-05,1.25,7,8,9,1.5,2.5,3.5,4.5],{"y":"zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz","y":"\\"}],"a":7}`,
	"data: {\"a\":1}\n\ndata: {\"b\":2}\r\n\r\ndata: [DONE]\n\n", "\ufeffdata:{\"a\":\ndata: 1}\r\r: c\nid: 1\n\n",
	"event: response.incomplete\ndata: {}\n\n", "event:message_stop\r\n\r\n", "event: response.incompleted\n\n",
	"{\"a\":1}\n{\"b\":2}\n\n{\"a\":", `{"a":tru}`, `"\`, `{"a":1}_y` + strings.Repeat("y\x7f_", 20),
}

// FuzzBody_pieces reads a body in one piece and in pieces that the input chooses.
func FuzzBody_pieces(f *testing.F) {
	for i, seed := range fuzzedSeeds {
		f.Add([]byte(seed), []byte{1, byte(i), 30, 3, 64}, byte(i))
	}
	f.Fuzz(func(t *testing.T, body, lengths []byte, kind byte) {
		header := http.Header{"Content-Type": {forms[int(kind)%len(forms)].contentType}}
		plan := fuzzedPlan(t)
		one, pieces, rest := plan.NewReader(header), plan.NewReader(header), body
		one.Write(body)
		for i := 0; len(rest) > 0; i++ {
			n := len(rest)
			if len(lengths) > 0 {
				n = min(n, 1+int(lengths[i%len(lengths)]))
			}
			piece := bytes.Clone(rest[:n])
			pieces.Write(piece)
			clear(piece) // which must not be kept
			rest = rest[n:]
		}
		one.End()
		pieces.End()
		assert.ErrorIf(t, one.Complete() != pieces.Complete(), "complete: %t in one piece, %t in pieces", one.Complete(), pieces.Complete())
		for i, text := range fuzzedSums {
			n, err := one.Sum(i, fuzzedPrice)
			m, errPieces := pieces.Sum(i, fuzzedPrice)
			assert.ErrorIf(t, n != m || fmt.Sprint(err) != fmt.Sprint(errPieces),
				"%s: %d, %v in one piece; %d, %v in pieces", text, n, err, m, errPieces)
		}
	})
}

// FuzzBody_reference compares with encoding/json in documents that it takes for valid.
func FuzzBody_reference(f *testing.F) {
	for _, seed := range fuzzedSeeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if !json.Valid(body) || !utf8.Valid(body) {
			t.Skip()
		}
		b := fuzzedPlan(t).NewReader(http.Header{"Content-Type": {"application/json"}})
		b.Write(body)
		b.End()
		assert.ErrorIf(t, !b.Complete(), "%q is not complete", body)
		found := map[string]json.Number{}
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.UseNumber()
		if err := walk(decoder, "", found); err != nil {
			t.Skip(err) // too deep for it
		}
		for i, text := range fuzzedSums {
			got, err := b.Sum(i, fuzzedPrice)
			if want, wantErr := referenceSum(t, text, found); got != want || fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Errorf("%s in %q: got %d, %v; want %d, %v", text, body, got, err, want, wantErr)
			}
		}
	})
}

func fuzzedPlan(t *testing.T) *NumberPlan {
	t.Helper()
	plan := new(NumberPlan)
	for i, text := range fuzzedSums {
		assert.Equal(t, plan.Add(assert.NoError(ParseSum(text))(t)), i, "the number of %s", text)
	}
	return plan
}

// walk collects the last number at each path. Names with dots are left out.
func walk(d *json.Decoder, path string, found map[string]json.Number) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch token := token.(type) {
	case json.Number:
		found[path] = token
	case json.Delim:
		for i := 0; d.More(); i++ {
			name := strconv.Itoa(i)
			if token == '{' {
				key, err := d.Token()
				if err != nil {
					return err
				}
				if name = fmt.Sprint(key); strings.Contains(name, ".") || name == "" {
					name = "left out"
				}
			}
			if err := walk(d, path+"."+name, found); err != nil {
				return err
			}
		}
		_, err = d.Token()
	}
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// fuzzedPrice is the value of each placeholder, also for the reference.
func fuzzedPrice(int) (Factor, error) {
	factor, ok := ParseFactor(referencePrice)
	if !ok {
		return 0, errors.New("no factor")
	}
	return factor, nil
}

const referencePrice = "0.333333"

// referenceTerm finds the terms of a sum whose names need no backslash.
var referenceTerm = regexp.MustCompile(`([+-]?)(?:([^*+-]*)\*)?([^*+-]+)`)

// referenceSum adds up what was found, with numbers of any size.
func referenceSum(t *testing.T, text string, found map[string]json.Number) (int64, error) {
	t.Helper()
	total := new(big.Rat)
	for _, term := range referenceTerm.FindAllStringSubmatch(text, -1) {
		number, ok := json.Number(""), false
		for _, path := range strings.Split(term[3], "|") {
			if number, ok = found["."+path]; ok {
				break
			}
		}
		if !ok && term[1] == "-" {
			continue
		}
		if !ok {
			return 0, ErrNoNumber
		}
		n, ok := referenceNumber(t, string(number), term[1] == "-")
		if !ok {
			return 0, errRange
		}
		if factor := strings.ReplaceAll(term[2], "{price}", referencePrice); factor != "" {
			n.Mul(n, referenceRat(t, factor))
		}
		if term[1] == "-" {
			n.Neg(n)
		}
		total.Add(total, n)
	}
	if total.Sign() < 0 {
		return 0, nil
	}
	up := new(big.Int).Add(total.Num(), new(big.Int).Sub(total.Denom(), big.NewInt(1)))
	up.Div(up, total.Denom())
	if up.Cmp(big.NewInt(largestNumber)) > 0 {
		return 0, errRange
	}
	return up.Int64(), nil
}

func referenceRat(t *testing.T, text string) *big.Rat {
	t.Helper()
	r, ok := new(big.Rat).SetString(text)
	assert.FatalIf(t, !ok, "%q is no number", text)
	return r
}

// referenceNumber returns a number, rounded down or up after its 18th digit. It is false for one out of range.
func referenceNumber(t *testing.T, text string, down bool) (*big.Rat, bool) {
	t.Helper()
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	if e, err := strconv.Atoi(exponent); exponent != "" && (err != nil || e > 1000 || e < -1000) {
		t.Skip("too large for the reference: " + exponent)
	}
	exact := referenceRat(t, text)
	if exact.Sign() < 0 || exact.Cmp(big.NewRat(largestNumber, 1)) > 0 {
		return nil, false
	}
	digits := strings.TrimLeft(strings.Replace(mantissa, ".", "", 1), "-0")
	const kept = 18
	if len(digits) <= kept || strings.Trim(digits[kept:], "0") == "" {
		return exact, true
	}
	scale := new(big.Rat).Quo(exact, referenceRat(t, digits)) // a power of ten
	last := referenceRat(t, digits[:kept]+strings.Repeat("0", len(digits)-kept))
	if !down {
		last.Add(last, referenceRat(t, "1"+strings.Repeat("0", len(digits)-kept)))
	}
	return last.Mul(last, scale), true
}

// BenchmarkBody reads bodies of 10 MB in pieces of 32 kB, as they come from reverse_proxy, with the usage at their
// end, and short ones for a sum of prices.
func BenchmarkBody(b *testing.B) {
	const length, piece, usage = 10 << 20, 32 << 10, `"usage":{"prompt_tokens":1000,"completion_tokens":500}`
	fill := func(text string) string { return strings.Repeat(text, length/len(text)) }
	for name, test := range map[string]struct{ contentType, sum, body string }{
		"text":    {"application/json", "usage.prompt_tokens", `{"choices":[` + fill(`"the model says that a “limit” is reached\n and \"quotes\" it",`) + `0],` + usage + `}`},
		"numbers": {"application/json", "usage.prompt_tokens", `{"data":[` + fill(`-0.0069292834,0.0053364224,`) + `0],` + usage + `}`},
		"objects": {"application/json", "usage.prompt_tokens", `{"items":[` + fill(`{"id":1,"name":"item","tags":["a","bc"],"ok":true},`) + `0],` + usage + `}`},
		"events":  {"text/event-stream", "usage.prompt_tokens", fill(`data: {"id":"c1","choices":[{"index":0,"delta":{"content":" limit"}}],"usage":null}`+"\n\n") + "data: {" + usage + "}\n\n"},
		"prices":  {"application/json", "{a}*usage.prompt_tokens+10*usage.completion_tokens", `{"id":"c1",` + usage + `}`},
	} {
		sum := assert.NoError(ParseSum(test.sum))(b)
		var plan NumberPlan
		plan.Add(sum)
		header, data := http.Header{"Content-Type": {test.contentType}}, []byte(test.body)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				body := plan.NewReader(header)
				for rest := data; len(rest) > 0; rest = rest[min(len(rest), piece):] {
					body.Write(rest[:min(len(rest), piece)])
				}
				body.End()
				n, err := body.Sum(0, func(int) (Factor, error) { return 2.5e6, nil })
				assert.FatalIf(b, n < 1000 || err != nil, "%v %v", n, err)
			}
		})
	}
}
