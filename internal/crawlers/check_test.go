package crawlers

import (
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestCheck holds the errors of crawlers that anyone may pass for.
func TestCheck(t *testing.T) {
	const word, suffix = "OurMonitor", ".monitor.example.net"
	const customers = ": customers of a hosting company have such names; write a longer one"
	const characters = ": use letters, digits, - and dots, other letters as xn--, without a dot at the end"
	for _, test := range []struct {
		name, words, suffixes string
		want                  string
	}{
		{"monitor", word, suffix, ""},
		{"google", "Googlebot", ".googlebot.com .google.com", ""},
		{"monitor", "", suffix, "monitor: agent is missing; write a word of its User-Agent"},
		{"monitor", word, "", "monitor: names or ranges is missing: by its User-Agent alone anyone is monitor"},
		{
			"openai", "GPTBot", "", "openai: names or ranges is missing: by its User-Agent alone anyone is openai; " +
				"its operator publishes ranges at https://openai.com/gptbot.json",
		},
		{"google", word, ".googleusercontent.com", "google: names .googleusercontent.com" + customers},
		{"google", word, ".bc.googleusercontent.com", "google: names .bc.googleusercontent.com" + customers},
		{"x", word, ".amazonaws.com", "x: names .amazonaws.com" + customers},
		{"google", word, "googlebot.com", "google: names googlebot.com: write .googlebot.com; without the dot fakegooglebot.com would do"},
		{"google", word, "*.google.com", "google: names *.google.com: write .google.com, which stands for all names under it"},
		{"x", word, ".appspot.com", "x: names .appspot.com: anyone may have a name under it"},
		{"x", word, ".com", "x: names .com: anyone may have a name under it"},
		{"x", word, ".co.uk", "x: names .co.uk: anyone may have a name under it"},
		{"x", word, ".eu-west-1.compute.amazonaws.com", "x: names .eu-west-1.compute.amazonaws.com: anyone may have a name under it"},
		{"x", word, ".a.example.", `x: names ".a.example."` + characters},
		{"x", word, ".bücher.example", `x: names ".bücher.example"` + characters},
		{"x", word, ".", `x: names "."` + characters},
		{"x", "Mozilla", suffix, "x: agent Mozilla: browsers have it too; write a word that only the crawler has"},
		{"x", "khtml", suffix, "x: agent khtml: browsers have it too; write a word that only the crawler has"},
		{"x", "Google", suffix, "x: agent Google: shorter words than Googlebot are in apps too; write a word that only the crawler has"},
		{"x", "curl", suffix, "x: agent curl: it is in apps too; write a word that only the crawler has"},
		{"x", "bot", suffix, `x: agent "bot": use a word of 4 to 64 printable characters of ASCII`},
		{"x", "böt-bot", suffix, `x: agent "böt-bot": use a word of 4 to 64 printable characters of ASCII`},
		{"resolver", word, suffix, `"resolver": use a name of 1 to 64 letters, digits, _ and -, other than resolver, wait and crawler`},
		{"our monitor", word, suffix, `"our monitor": use a name of 1 to 64 letters, digits, _ and -, other than resolver, wait and crawler`},
	} {
		got := ""
		if err := Check(test.name, strings.Fields(test.words), strings.Fields(test.suffixes), false); err != nil {
			got = err.Error()
		}
		assert.Equal(t, got, test.want, "the error of %s, %s, %s", test.name, test.words, test.suffixes)
	}
	assert.Must(t, Check("openai", []string{"GPTBot"}, nil, true))
}

// TestShipped holds the table to its own rules, and to eight crawlers that need no block.
func TestShipped(t *testing.T) {
	for i := range shipped {
		s := &shipped[i]
		assert.Must(t, Check(s.Name, s.Words, s.Suffixes, true))
		found, ok := ShippedAs(s.Name)
		assert.ErrorIf(t, !ok || found.Name != s.Name, "%s is not found by its name", s.Name)
	}
	assert.Equal(t, len(ShippedNames(false)), 8, "crawlers that need no block")
	_, ok := ShippedAs("nothing")
	assert.Equal(t, ok, false, "whether a name that is not in the table is found")
}
