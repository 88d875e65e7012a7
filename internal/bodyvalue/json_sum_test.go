package bodyvalue

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestBody_sums has sums whose exact value decides.
func TestBody_sums(t *testing.T) {
	checkFile(t, "sums.txt")
	checkRead(t, strings.Repeat("1000000*a+", 15)+"1000000*a", "application/json", `{"a":4503599627370496}`, 0, errRange)
	checkRead(t, "a"+strings.Repeat("-1000000*b", 15), "application/json", `{"a":1,"b":4503599627370496}`, 0, nil)
}

// TestBody_Sum_prices has factors that come from placeholders.
func TestBody_Sum_prices(t *testing.T) {
	sum, err := ParseSum("{http.x-y+z*|}*a-{in}*b|c+2*d")
	if err != nil || fmt.Sprint(sum.Placeholders()) != "[{http.x-y+z*|} {in}]" {
		t.Fatal(sum.Placeholders(), err)
	}
	var plan NumberPlan
	plan.Add(sum)
	none := errors.New("no price")
	for body, want := range map[string]string{
		`{"a":10,"b":3,"d":1}`: "11 <nil>", // 1.5*10-2*3+2*1
		`{"a":10,"d":1}`:       "17 <nil>", // a price that is not needed
		`{"a":10,"c":0}`:       "0 " + ErrNoNumber.Error(),
		`{"a":0,"c":99,"d":1}`: "0 no price",
	} {
		b := plan.NewReader(http.Header{"Content-Type": {"application/json"}})
		b.Write([]byte(body))
		b.End()
		n, err := b.Sum(0, func(i int) (Factor, error) {
			if b.last[plan.sums[0][0].slots[0]].digits == 0 {
				return 0, none
			}
			return []Factor{1.5e6, 2e6}[i], nil
		})
		assert.Equal(t, fmt.Sprint(n, " ", err), want, "%s", body)
	}
}

func TestParseFactor(t *testing.T) {
	for text, want := range map[string]Factor{
		"0": 0, "1": 1e6, "0.15": 150_000, "0.000001": 1, "1000000": 1e12, "1000000.0": 1e12, "007.50": 7_500_000, "999999.999999": 1e12 - 1,
	} {
		got, ok := ParseFactor(text)
		assert.ErrorIf(t, !ok || got != want, "%s: got %d, %t; want %d", text, got, ok, want)
	}
	for _, text := range []string{
		"", ".", "1.", ".5", "-1", "+1", "-0", "1e3", "0x1", "1_0", " 1", "1 ", "1,5", "0.0000001", "0.0000000", "1000000.000001", "1000001",
		"99999999999999999999", "1.+5", "1.-5", "1.5.5", "NaN", "Inf", "1.5\x00", "²", strings.Repeat("9", 1000),
	} {
		got, ok := ParseFactor(text)
		assert.ErrorIf(t, ok, "%q: got %d; want none", text, got)
	}
}

// TestParseSum_errors has what is wrong with paths, factors and signs, and what to write.
func TestParseSum_errors(t *testing.T) {
	sums := append(rows(t, "refused_sums.txt", 2), [][]string{
		{strings.Repeat("a.", 16) + "a", "at most 16 names"},
		{strings.Repeat("a+", 16) + "a", "at most 16 paths"},
		{"a." + strings.Repeat("b", 257), "at most 256 bytes"},
		{"2*a\\", "backslash at the end"},
		{strings.Repeat("2*a-", 16) + "a", "at most 16 paths"},
	}...)
	for _, sum := range sums {
		_, err := ParseSum(sum[0])
		assert.ErrorIf(t, err == nil || !strings.Contains(err.Error(), sum[1]), "%q: got error %v, want one with %q", sum[0], err, sum[1])
	}
}

// FuzzSum compares sums of any numbers, factors and signs with exact ones. The first byte of each two decides
// over sign and kind of factor.
func FuzzSum(f *testing.F) {
	f.Add("1.5,2e3,0.000000000000000000123,null,4503599627370496", []byte{0, 1, 2, 3, 4, 5}, byte(1))
	f.Add("1e-300,9.99999999999999999e-301,1e-300", []byte{0, 255, 129, 3}, byte(7))
	f.Add("1.0000000000000000001,0.9999999999999999999,-1", []byte{130}, byte(0))
	f.Fuzz(func(t *testing.T, text string, shape []byte, length byte) {
		numbers := strings.Split(text, ",")
		if len(numbers) > maxPaths || !json.Valid([]byte(`{"n":[`+text+`]}`)) || !utf8.ValidString(text) {
			t.Skip()
		}
		checkSum(t, numbers, shape, int(length))
	})
}

// TestSum_random does the same with numbers that are close to each other, to bounds, and far apart.
func TestSum_random(t *testing.T) {
	for seed, play := range assert.Plays(t, 1000, 50_000) {
		random := rand.New(rand.NewPCG(seed, 4))
		numbers, shape := make([]string, 1+random.IntN(maxPaths)), make([]byte, 2*maxPaths)
		near, spread := random.Int64N(1e18), []int{1, 6, 40, 400}[random.IntN(4)]
		for i := range numbers {
			digits := fmt.Sprint(near + random.Int64N(3))
			switch random.IntN(8) {
			case 0, 1:
				digits = fmt.Sprint(random.Int64N(1e18))
			case 2:
				digits = fmt.Sprintf("%d%d", int64(largestNumber), random.Int64N(3))
			case 3:
				digits += fmt.Sprint(random.Int64N(1e18))
			case 4:
				digits = "0"
			}
			numbers[i] = fmt.Sprintf("%s.%se-%d", digits[:1], digits[1:]+"0", random.IntN(spread))
			if random.IntN(2) == 0 {
				numbers[i] = fmt.Sprintf("%se-%d", digits, max(0, len(digits)-15)+random.IntN(20))
			}
		}
		for i := range shape {
			shape[i] = byte(random.Uint32())
		}
		length := 1 + random.IntN(20)
		play.Step("the sum of %s by the shape %v in pieces of %d bytes", numbers, shape, length)
		checkSum(t, numbers, shape, length)
	}
}

// checkSum compares a sum of the numbers with that of the reference. The body comes in pieces of a length.
func checkSum(t *testing.T, numbers []string, shape []byte, length int) {
	t.Helper()
	body := `{"n":[` + strings.Join(numbers, ",") + `]}`
	var text strings.Builder
	for i := range numbers {
		var kind, size byte
		if len(shape) > 0 {
			kind, size = shape[2*i%len(shape)], shape[(2*i+1)%len(shape)]
		}
		if i > 0 {
			text.WriteByte("+-"[kind>>7])
		}
		switch kind % 5 {
		case 0:
			fmt.Fprintf(&text, "%d.%06d*", uint(size)*3921, uint(size)*uint(kind)*15%1e6)
		case 1:
			text.WriteString("{price}*")
		case 2:
			text.WriteString([]string{"0*", "1*", "1000000*", "0.000001*"}[size%4])
		case 3:
			fmt.Fprintf(&text, "0.%06d*", size)
		}
		fmt.Fprintf(&text, "n.%d", i)
	}
	decoder, found := json.NewDecoder(strings.NewReader(body)), map[string]json.Number{}
	decoder.UseNumber()
	if err := walk(decoder, "", found); err != nil {
		t.Skip(err) // too deep for it
	}
	want, wantErr := referenceSum(t, text.String(), found)
	got, err := newRead(t, text.String(), "application/json", body, length).Sum(0, fuzzedPrice)
	assert.ErrorIf(t, got != want || !errors.Is(err, wantErr), "%s in %s: got %d, %v; want %d, %v", &text, body, got, err, want, wantErr)
}
