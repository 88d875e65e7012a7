package bodyvalue

import (
	"slices"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

func TestFoldKey(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "",
		"bob@example.com":             "bob@example.com",
		"Bob@Example.com ":            "bob@example.com",
		"\t\x00\u3000bob\r\n\u0085":   "bob",
		"\u200b\ufeff bob \u202e":     "bob",
		"b\u00adob":                   "bob",
		"\u3164\u2800b\u115fob\uffa0": "bob",
		"b\x00o b":                    "b\x00o b",
		"bób":                         "bob",
		"bo\u0301b":                   "bob",
		"BÓB":                         "bob",
		"ｂｏｂ":                         "bob",
		"𝐛𝐨𝐛":                         "bob",
		"ﬁne":                         "fine",
		"straße STRASSE STRAẞE":       "strasse strasse strasse",
		"\u212aelvin ſam ı İ":         "kelvin sam i i",
		"ΣΊΣΥΦΟς":                     "σισυφοσ",
		"Дима Ёж Й":                   "дима еж и",
		"東京":                          "東京",
		"한글":                          "\u1112\u1161\u11ab\u1100\u1173\u11af",
		"bøb bðb Łukasz œuvre ĿŀÆ ǽ":  "bob bdb lukasz oeuvre llae ae",
		"b\u0366b":                    "bob",
		"b🅞b 🆗 ❶⓫":                    "bob ok 111",
		"١٢٣ १२३ 𝟙𝟘 ３":                "123 123 10 3",
		"\u00a8bob\u00a8":             "bob",
		"b\ufe76\u0640ob":             "bob",
		"ハハ ﾊﾟﾊﾟ パパ ㇵは":               "はは はは はは はは",
		"キャッシュ":                       "きやつしゆ",
		"שלום שלומ":                   "שלום שלום",
		"и\u2de1ан иван Ґ":            "иван иван г",
		"😀":                           "😀",
		" ":                           "",
		"\u0301":                      "",
		"a\xffb":                      "a\ufffdb",
		strings.Repeat("\u0301", 200): "",
	} {
		assert.Equal(t, FoldKey(text), want, "the key %q", text)
	}
}

// TestFoldRune has one character for all that differ by case.
func TestFoldRune(t *testing.T) {
	for r := range rune(unicode.MaxRune) {
		folded := FoldRune(r)
		assert.FatalIf(t, FoldRune(folded) != folded, "%U folds to %U, and that to %U", r, folded, FoldRune(folded))
		for _, other := range []rune{unicode.SimpleFold(r), unicode.ToUpper(r), unicode.ToLower(r)} {
			assert.FatalIf(t, FoldRune(other) != folded, "%U folds to %U, and %U to %U", r, folded, other, FoldRune(other))
		}
	}
}

// TestDigitValue has all digits in their order.
func TestDigitValue(t *testing.T) {
	n := 0
	for r := range rune(unicode.MaxRune) {
		if unicode.IsDigit(r) {
			assert.Equal(t, int(digitValue(r)), n%10, "the value of %U", r)
			n++
		}
	}
	assert.ErrorIf(t, n < 600, "%d digits", n)
}

// TestLookalikes has each character once, with a text that is folded.
func TestLookalikes(t *testing.T) {
	n := 0
	for _, same := range slices.Concat(lookalikesOf, lookalikesOfLetters) {
		assert.ErrorIf(t, FoldKey(same.text) != same.text, "%q is not folded", same.text)
		for _, r := range same.characters {
			n++
			assert.ErrorIf(t, FoldKey(string(r)) != same.text, "%U is not %q", r, same.text)
			for _, other := range []rune{unicode.ToUpper(r), unicode.ToLower(r)} {
				assert.ErrorIf(t, FoldKey(string(other)) != same.text, "%U is not %q, as %U is", other, same.text, r)
			}
		}
	}
	assert.Equal(t, len(lookalikes()), n, "the characters")
}

// TestFoldKey_characters folds each character that is assigned, alone and behind another one.
func TestFoldKey_characters(t *testing.T) {
	for r := range rune(unicode.MaxRune) {
		if !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z, unicode.Cc, unicode.Cf) {
			continue
		}
		for _, text := range []string{string(r), "b" + string(r) + "\u0301" + string(r)} {
			assert.FatalIf(t, FoldKey(text) != referenceFold(text), "%U in %q is %q, not %q", r, text, FoldKey(text), referenceFold(text))
		}
	}
}

// TestFoldKey_long has texts that are long before or after they are folded.
func TestFoldKey_long(t *testing.T) {
	const many = 100_000
	full := strings.Repeat("x", maxFolded)
	for _, test := range []struct{ text, want string }{
		{full, full},
		{full + " ", full},
		{strings.ToUpper(full), full},
		{strings.Repeat("\u0301", many) + strings.ToUpper(full) + strings.Repeat("\u3000\u0301 \u00a8", many), full},
		{strings.Repeat("\u3000\u00ad \u00a8", many) + "Bob" + strings.Repeat("\u0301\u00ad", many), "bob"},
		{"B" + strings.Repeat("\U000e0101", many) + "ob" + strings.Repeat(" ", many) + "\u0301", "bob"},
		{"B" + strings.Repeat(" ", maxFolded-2) + "\u00d3", "b" + strings.Repeat(" ", maxFolded-2) + "o"},
		{"B" + strings.Repeat(" ", maxFolded-1) + "\u00d3", ""},
		{strings.ToUpper(full) + "x", ""},
		{"\u00c9" + full, ""},
		{strings.Repeat("\ufdfa", many), ""},
		{strings.Repeat("\ufdfa", maxFolded/33+1), ""},
		{strings.Repeat("\uac00", many), ""},
	} {
		want := test.want
		if want == "" { // it stays
			want = test.text
		}
		got := FoldKey(test.text)
		assert.ErrorIf(t, got != want, "%.20q of %d bytes is %.20q of %d", test.text, len(test.text), got, len(got))
		assert.ErrorIf(t, FoldKey(got) != got, "%.20q of %d bytes is not folded", got, len(got))
	}
}

// FuzzFoldKey folds what differs by case, blanks and marks.
func FuzzFoldKey(f *testing.F) {
	for _, seed := range []string{"Bob@Example.com ", "bób", "straße", "\u00a8", "ǽ 🅞", "\u1100\u1161", "\u0345ᾳ", "ŉ", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsRune(norm.NFKD.String(text), '\u0345') {
			t.Skip() // the one mark that is a letter in upper case
		}
		folded := FoldKey(text)
		if len(text) > maxFolded/33 {
			assert.Equal(t, FoldKey(folded), folded, "the key %q, folded again", folded)
			t.Skip() // it may be long
		}
		assert.Equal(t, folded, referenceFold(text), "the key %q", text)
		for _, other := range []string{
			folded, strings.ToUpper(text), strings.ToLower(text), strings.ToTitle(folded), " " + text + "\r\n", text + "\u0301",
			"\u200b" + text, strings.ReplaceAll(text, "", "\u00ad"),
		} {
			if strings.ContainsRune(folded, '\ufffd') {
				break // the bytes that are no UTF-8 may become some
			}
			assert.Equal(t, FoldKey(other), folded, "the key %q, which is like %q", other, text)
		}
		assert.Equal(t, strings.TrimFunc(folded, isOuter), folded, "the key %q without blanks", folded)
		for _, r := range folded {
			assert.ErrorIf(t, unicode.In(r, unicode.M, unicode.Cf), "%q has %U", folded, r)
		}
	})
}

// BenchmarkFoldKey folds texts of accounts.
func BenchmarkFoldKey(b *testing.B) {
	for name, text := range map[string]string{"folded": "bob@example.com", "case": "Bob@Example.com ", "marks": "bób@example.com",
		"long": strings.Repeat("\ufdfa", 1<<20/3), "long_marks": strings.Repeat("\u0301", 1<<19), "long_blanks": strings.Repeat("\u00a8", 1<<19)} {
		b.Run("text="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				FoldKey(text)
			}
		})
	}
}
