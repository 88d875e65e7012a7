package routetrace

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
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
		got := MatchersText(sets)
		assert.ErrorIf(t, got != want, "got %q, want %q", got, want)
	}
}

func TestLocalAddress(t *testing.T) {
	for _, test := range []struct {
		listen    []string
		url, want string
	}{
		{[]string{":8080"}, "http://192.0.2.1:8080/", "192.0.2.1:8080"},
		{[]string{":8080"}, "http://[2001:db8::1]:8080/", "[2001:db8::1]:8080"},
		{[]string{":8080"}, "http://example.com:8080/", "[::]:8080"},
		{[]string{":8080"}, "/", "[::]:8080"},
		{[]string{"127.0.0.1:8080"}, "/", "127.0.0.1:8080"},
		{[]string{"127.0.0.1:80", "127.0.0.1:443"}, "https://example.com/", "127.0.0.1:443"},
		{[]string{"127.0.0.1:8000-8009"}, "http://example.com:8005/", "127.0.0.1:8005"},
		{[]string{"unix//run/site.sock"}, "/", "/run/site.sock"},
		{nil, "/", "[::]:0"},
	} {
		target := assert.NoError(url.Parse(test.url))(t)
		got := localAddress(&caddyhttp.Server{Listen: test.listen}, target).String()
		assert.ErrorIf(t, got != test.want, "%v, %s: got %s, want %s", test.listen, test.url, got, test.want)
	}
}

// addsHeader is a handler that adds a field to the response before it calls the next one.
type addsHeader struct{ seen int }

func (a *addsHeader) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	w.Header().Add("X-Added", "x")
	a.seen = len(w.Header()["X-Added"])
	return next.ServeHTTP(w, r)
}

// TestTracer_Run_again holds what replay relies on: millions of requests use one tracer.
func TestTracer_Run_again(t *testing.T) {
	mutates := new(addsHeader)
	plan := &Plan{Routes: []Route{{Steps: []Step{{Mutates: mutates}}}}}
	tracer := new(Tracer)
	for range 3 {
		_, err := tracer.Run(plan, httptest.NewRequest(http.MethodGet, "/", nil))
		assert.FatalIf(t, err != nil || mutates.seen != 1, "%d fields of the response, %v; want 1", mutates.seen, err)
	}
}
