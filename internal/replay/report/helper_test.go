package report

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
)

// reportOf renders a result.
func reportOf(t *testing.T, r *replay.Result) string {
	t.Helper()
	var b bytes.Buffer
	redistest.Must(t, Write(&b, r))
	return b.String()
}

// parsed is the report as a browser would understand it.
func parsed(t *testing.T, page string) *html.Node {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	redistest.Must(t, err)
	return root
}

// elements are those with one of the names, in the order of the page; all without a name.
func elements(root *html.Node, names ...string) []*html.Node {
	var found []*html.Node
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		for _, name := range names {
			if n.Data == name {
				found = append(found, n)
			}
		}
		if len(names) == 0 {
			found = append(found, n)
		}
	}
	return found
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// textOf is the text in an element, with its white space evened out.
func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func textsOf(nodes []*html.Node) []string {
	texts := make([]string, len(nodes))
	for i, n := range nodes {
		texts[i] = textOf(n)
	}
	return texts
}
