package routetrace

import (
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func TestMatchersText(t *testing.T) {
	paths := func(paths ...string) *caddyhttp.MatchPath { return (*caddyhttp.MatchPath)(&paths) }
	methods := func(methods ...string) *caddyhttp.MatchMethod { return (*caddyhttp.MatchMethod)(&methods) }
	not := func(sets ...caddyhttp.MatcherSet) *caddyhttp.MatchNot {
		return &caddyhttp.MatchNot{MatcherSets: sets}
	}
	for want, sets := range map[string]caddyhttp.MatcherSets{
		"":                                    nil,
		"method GET,HEAD path /a*":            {{paths("/a*"), methods("GET", "HEAD")}},
		"(path /a or path /b)":                {{paths("/a")}, {paths("/b")}},
		"not (path /b*,/a*)":                  {{not(caddyhttp.MatcherSet{paths("/b*", "/a*")})}},
		"not (path /a*) not (path /b*)":       {{not(caddyhttp.MatcherSet{paths("/b*")}, caddyhttp.MatcherSet{paths("/a*")})}},
		"not (by header) path /b*,/a*":        {{paths("/b*", "/a*"), not(caddyhttp.MatcherSet{&caddyhttp.MatchHeader{}})}},
		"method GET not (method PUT path /a)": {{not(caddyhttp.MatcherSet{paths("/a"), methods("PUT")}), methods("GET")}},
		"not (not (method GET) path /a)":      {{not(caddyhttp.MatcherSet{paths("/a"), not(caddyhttp.MatcherSet{methods("GET")})})}},
		`path "/a,b","/a b","/(a)"`:           {{paths("/a,b", "/a b", "/(a)")}},
		"path /a,/b,/c and 2 more":            {{paths("/a", "/b", "/c", "/d", "/e")}},
	} {
		if got := MatchersText(sets); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
