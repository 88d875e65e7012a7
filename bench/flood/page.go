package main

import (
	"html"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// waitingPage is what a browser does with a page that waits.
type waitingPage struct {
	after time.Duration
	next  string   // where the page leads by itself
	files []string // style sheets
}

// A tag ends at the first > that no quotes enclose.
var (
	tags       = regexp.MustCompile(`(?i)<(meta|link)\b((?:[^>"']|"[^"]*"|'[^']*')*)>`)
	attributes = regexp.MustCompile(`([a-zA-Z-]+)\s*(?:=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?`)
	refreshes  = regexp.MustCompile(`(?i)^\s*(\d+)[\d.]*\s*[;,]?\s*(?:url\s*=\s*)?["']?([^"']*)`)
)

// readWaitingPage reads a page, and reports whether it leads to another by itself.
func readWaitingPage(body string) (p waitingPage, ok bool) {
	for _, tag := range tags.FindAllStringSubmatch(body, -1) {
		a := attributesOf(tag[2])
		switch {
		case strings.EqualFold(tag[1], "link") && strings.EqualFold(a["rel"], "stylesheet") && a["href"] != "":
			p.files = append(p.files, a["href"])
		case strings.EqualFold(tag[1], "meta") && strings.EqualFold(a["http-equiv"], "refresh") && !ok:
			p.after, p.next, ok = readRefresh(a["content"])
		}
	}
	return p, ok
}

// attributesOf returns the attributes of a tag by their names in lower case. Of a name that is there twice the first counts.
func attributesOf(tag string) map[string]string {
	a := map[string]string{}
	for _, m := range attributes.FindAllStringSubmatch(tag, -1) {
		name := strings.ToLower(m[1])
		if _, again := a[name]; !again {
			a[name] = html.UnescapeString(m[2] + m[3] + m[4])
		}
	}
	return a
}

// readRefresh reads the content of a refresh, such as "1;url=/".
func readRefresh(content string) (after time.Duration, next string, ok bool) {
	m := refreshes.FindStringSubmatch(content)
	if m == nil {
		return 0, "", false
	}
	seconds, err := strconv.Atoi(m[1])
	return time.Duration(seconds) * time.Second, strings.TrimSpace(m[2]), err == nil
}
