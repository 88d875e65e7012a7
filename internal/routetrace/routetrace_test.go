package routetrace

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"

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

// warningsOf returns the warnings of servers.
func warningsOf(servers map[string]*caddyhttp.Server) []Warning {
	return Warnings(new(Trees).Of(servers))
}

// TestWarnings_foreignHeader has a handler of another author in front of the one that reads a header.
func TestWarnings_foreignHeader(t *testing.T) {
	reader := &warnable{subject: Subject{Headers: []string{"Remote-User"}, JSON: "{}"}}
	foreign := &struct{ caddyhttp.MiddlewareHandler }{} // a type without a name has no author that is known
	login := func(provider caddyauth.Authenticator) *caddyauth.Authentication {
		return &caddyauth.Authentication{Providers: map[string]caddyauth.Authenticator{"a": provider}}
	}
	sets := &headers.Handler{Request: &headers.HeaderOps{Set: http.Header{"remote-user": {"a"}}}}
	deletes := &headers.Handler{Request: &headers.HeaderOps{Delete: []string{"Remote-User"}}}
	const none, never, later, unsure = "", "which nothing before it sets", "so that clients can forge it; put both", "unless a handler in front sets it too; put both"
	for name, test := range map[string]struct {
		route []caddyhttp.MiddlewareHandler
		want  string
	}{
		"alone":                           {[]caddyhttp.MiddlewareHandler{reader}, never},
		"behind it":                       {[]caddyhttp.MiddlewareHandler{foreign, reader}, none},
		"in front of it":                  {[]caddyhttp.MiddlewareHandler{reader, foreign}, never},
		"behind it, in front of a header": {[]caddyhttp.MiddlewareHandler{foreign, reader, sets}, unsure},
		"behind it, deleted later":        {[]caddyhttp.MiddlewareHandler{foreign, reader, deletes}, none},
		"deleted later":                   {[]caddyhttp.MiddlewareHandler{reader, deletes}, later},
		"behind it and a header":          {[]caddyhttp.MiddlewareHandler{foreign, sets, reader, sets}, none},
		"behind a login":                  {[]caddyhttp.MiddlewareHandler{login(caddyauth.HTTPBasicAuth{}), reader}, never},
		"behind a login of its author":    {[]caddyhttp.MiddlewareHandler{login(&struct{ caddyauth.Authenticator }{}), reader, sets}, unsure},
	} {
		servers := map[string]*caddyhttp.Server{"srv0": {Routes: caddyhttp.RouteList{{Handlers: test.route}}}}
		got := warningsOf(servers)
		if test.want == none {
			assert.ErrorIf(t, len(got) > 0, "%s: got %v, want no warning", name, got)
			continue
		}
		assert.ErrorIf(t, len(got) != 1 || !strings.Contains(got[0].Text, test.want), "%s: got %v, want one with %q", name, got, test.want)
	}
}

// TestWarnings_foreignPlaceholder says nothing of placeholders that a handler of another author may set.
func TestWarnings_foreignPlaceholder(t *testing.T) {
	reader := &warnable{subject: Subject{Placeholders: []string{"user", "http.auth.user.id"}, JSON: "{}"}}
	foreign := &struct{ caddyhttp.MiddlewareHandler }{}
	for name, test := range map[string]struct {
		route []caddyhttp.MiddlewareHandler
		want  int
	}{
		"alone":          {[]caddyhttp.MiddlewareHandler{reader}, 1},
		"behind it":      {[]caddyhttp.MiddlewareHandler{foreign, reader}, 0},
		"before a login": {[]caddyhttp.MiddlewareHandler{reader, &caddyauth.Authentication{}}, 2},
		"between them":   {[]caddyhttp.MiddlewareHandler{foreign, reader, &caddyauth.Authentication{}}, 0},
	} {
		servers := map[string]*caddyhttp.Server{"srv0": {Routes: caddyhttp.RouteList{{Handlers: test.route}}}}
		got := warningsOf(servers)
		assert.ErrorIf(t, len(got) != test.want, "%s: got %v, want %d warnings", name, got, test.want)
	}
}

// addsHeader is a handler that adds a field to the response before it calls the next one.
type addsHeader struct{ seen int }

func (a *addsHeader) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	w.Header().Add("X-Added", "x")
	a.seen = len(w.Header()["X-Added"])
	return next.ServeHTTP(w, r)
}

// warnable is such a handler whose limits warnings are about.
type warnable struct {
	addsHeader
	subject Subject
}

// WarningSubject implements [Warnable].
func (w *warnable) WarningSubject() *Subject { return &w.subject }

// TestTracer_Run_again holds what replay relies on: millions of requests use one tracer.
func TestTracer_Run_again(t *testing.T) {
	mutates := new(addsHeader)
	tree := &Tree{lists: []list{{routes: []route{{handlers: []handler{{kind: Mutates, module: mutates}}}}}}}
	tracer := new(Tracer)
	for range 3 {
		_, err := tracer.Run(tree, httptest.NewRequest(http.MethodGet, "/", nil))
		assert.FatalIf(t, err != nil || mutates.seen != 1, "%d fields of the response, %v; want 1", mutates.seen, err)
	}
}
