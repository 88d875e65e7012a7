package report

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
)

// hostileTexts is what strangers would like to see in a report.
var hostileTexts = []string{
	`<script>alert(1)</script>`,
	`"><img src=x onerror=alert(1)>`,
	`' onmouseover='alert(1)`,
	`javascript:alert(1)`,
	`</title></style></svg><svg onload=alert(1)>`,
	`<!-- --><base href=http://192.0.2.1/><meta http-equiv=refresh content="0;url=http://192.0.2.1/">`,
	`{{.}} ${7*7} ]]> &lt;b&gt;`,
	"\x1b[31mred\x1b[0m\a\x00\x7f\r\n",
	"\u202egnp.exe\u2066\u200b\ufeff",
	"\xff\xfe\xc0\xaf",
	strings.Repeat("W", 4_000),
}

// hostileResult has a hostile text wherever text from outside can be.
func hostileResult(text string) *replay.Result {
	r := sampleResult()
	for i := range r.Policies {
		p := &r.Policies[i]
		p.Name, p.Key, p.Algorithm, p.LimitFrom, p.BurstFrom, p.Cost = text, text, text, text, text, text
		for j := range p.Worst {
			p.Worst[j].Key = text
		}
	}
	r.Suggestions.Policy, r.Suggestions.Key, r.Suggestions.NotTried = text, text, []string{text}
	for i := range r.Suggestions.Ladders {
		r.Suggestions.Ladders[i].Algorithm = text
	}
	for i := range r.Log.Files {
		f := &r.Log.Files[i]
		f.Name, f.Format, f.Error = text, text, text
	}
	for i := range r.Log.First5 {
		r.Log.First5[i] = replay.BadLine{Where: text, Reason: text, Text: text}
	}
	r.Warnings, r.Skipped = []string{text}, []string{text}
	return r
}

// skeleton is the page without its texts: elements and the attributes that can do something.
func skeleton(root *html.Node) []string {
	var bones []string
	for _, n := range elements(root) {
		bone := n.Data
		for _, a := range n.Attr {
			bone += " " + a.Key
		}
		bones = append(bones, bone)
	}
	return bones
}

func TestWrite_hostile_text(t *testing.T) {
	want := skeleton(parsed(t, reportOf(t, hostileResult("harmless"))))
	for _, text := range hostileTexts {
		t.Run(sayName(text)[:5], func(t *testing.T) {
			page := reportOf(t, hostileResult(text))
			if i := strings.IndexFunc(page, invisible); i >= 0 {
				t.Errorf("%q stands in the page as it is", page[i:i+4])
			}
			root := parsed(t, page)
			if got := skeleton(root); !slices.Equal(got, want) {
				t.Errorf("the text changed the elements of the page: %d, want %d", len(got), len(want))
			}
			for _, n := range elements(root) {
				assertHarmless(t, n)
			}
			if page := textOf(root); !strings.Contains(page, strings.Join(strings.Fields(sayName(text)), " ")) {
				t.Error("the text is not on the page")
			}
		})
	}
}

// assertHarmless allows an element to show something, and to lead to another place of the page.
func assertHarmless(t *testing.T, n *html.Node) {
	t.Helper()
	if slices.Contains([]string{"script", "img", "base", "iframe", "object", "embed", "link", "form"}, n.Data) {
		t.Errorf("a %s", n.Data)
	}
	for _, a := range n.Attr {
		key := strings.ToLower(a.Key)
		if strings.HasPrefix(key, "on") || key == "style" || key == "src" || key == "href" && !strings.HasPrefix(a.Val, "#") {
			t.Errorf("%s has %s=%q", n.Data, a.Key, a.Val)
		}
	}
}

func invisible(r rune) bool {
	return r < ' ' && r != '\n' && r != '\t' || r == 0x7f || strings.ContainsRune("\u202e\u2066\u200b\ufeff\ufffd", r)
}
