package caddytest

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// Visitor is a browser as far as a challenge needs one. It is one person's: not for several goroutines.
type Visitor struct {
	*Node

	Refuses bool // cookies
	IsText  bool // loads no style sheets
	Cookies map[string]string
	Waits   int // pages that waited so far
}

var (
	waitingLink = regexp.MustCompile(`http-equiv="?refresh"? content="1;url=([^"]*)"`)
	styleSheet  = regexp.MustCompile(`<link rel="?stylesheet"? href="([^"]*)"`)
)

// WaitingLink returns where a page that waits leads to, empty for any other response.
func WaitingLink(a Response) string { return linkIn(a, waitingLink) }

// StyleSheet returns where a page has its style sheet, empty if it has none.
func StyleSheet(a Response) string { return linkIn(a, styleSheet) }

func linkIn(a Response, by *regexp.Regexp) string {
	found := by.FindStringSubmatch(a.Body)
	if found == nil {
		return ""
	}
	return html.UnescapeString(found[1])
}

// Load requests a URL with the visitor's cookies, and keeps those of the response.
func (v *Visitor) Load(method, url string, headers ...string) (a Response, err error) {
	var cookies []string
	for name, value := range v.Cookies {
		cookies = append(cookies, name+"="+value)
	}
	if len(cookies) > 0 {
		headers = append(headers, "Cookie: "+strings.Join(cookies, "; "))
	}
	if a, err = v.Try(method, url, "", headers...); err != nil || v.Refuses {
		return a, err
	}
	for _, line := range a.Header["Set-Cookie"] {
		if c, err := http.ParseSetCookie(line); err == nil {
			if v.Cookies == nil {
				v.Cookies = map[string]string{}
			}
			v.Cookies[c.Name] = c.Value
		}
	}
	return a, nil
}

// Navigate requests a URL as browsers do where a person goes there.
func (v *Visitor) Navigate(url string) (Response, error) {
	return v.Load(http.MethodGet, url, "Accept: text/html,application/xhtml+xml")
}

// Open opens a path as a browser does: it follows redirections, and waits where a page waits, which it does at most so
// many times.
func (v *Visitor) Open(path string, waits int) (a Response, err error) {
	at, err := url.Parse(v.URL + path)
	for left := 10; err == nil && left > 0; left-- {
		if a, err = v.Navigate(at.String()); err != nil {
			return a, err
		}
		link := a.Header.Get("Location")
		if link == "" {
			if link = WaitingLink(a); link == "" || waits == 0 {
				return a, nil
			}
			v.Waits++
			waits--
			waited := time.After(time.Second)
			if sheet := StyleSheet(a); sheet != "" && !v.IsText {
				file, err := at.Parse(sheet)
				if err != nil {
					return a, err
				}
				if _, err := v.Load(http.MethodGet, file.String(), "Accept: text/css,*/*;q=0.1"); err != nil {
					return a, err
				}
			}
			<-waited
		}
		at, err = at.Parse(link)
	}
	return a, err
}
