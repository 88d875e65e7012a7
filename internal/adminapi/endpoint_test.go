package adminapi

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// documentedRoutes finds examples of questions in pages: as curl asks them, or a method with its path.
var (
	curlExample  = regexp.MustCompile("`curl '?localhost:2019(/redis_ratelimit/\\w+)[^`]*`")
	methodAndURL = regexp.MustCompile("`(GET|POST) (/redis_ratelimit/\\w+)`")
)

// documentedIn adds the methods and paths that a page tells.
func documentedIn(page string, routes map[string]bool) {
	for _, found := range curlExample.FindAllStringSubmatch(page, -1) {
		method := http.MethodGet
		if strings.Contains(found[0], " -d ") {
			method = http.MethodPost
		}
		routes[method+" "+found[1]] = true
	}
	for _, found := range methodAndURL.FindAllStringSubmatch(page, -1) {
		routes[found[1]+" "+found[2]] = true
	}
}

// TestRoutes_documented compares the endpoints with those that the pages in docs/ name.
func TestRoutes_documented(t *testing.T) {
	documented := map[string]bool{}
	for _, path := range assert.NoError(filepath.Glob("../../docs/*.md"))(t) {
		documentedIn(string(assert.NoError(os.ReadFile(path))(t)), documented)
	}
	assert.FatalIf(t, len(documented) == 0, "no page has an example")
	for _, r := range Routes() {
		name := r.Method + " " + r.Path()
		assert.ErrorIf(t, !documented[name], "no page of docs has %s", name)
		delete(documented, name)
	}
	assert.ErrorIf(t, len(documented) > 0, "docs name %v, which are no endpoints", documented)
}

// TestQueries reads what was written: each question of GET, given and left out.
func TestQueries(t *testing.T) {
	given := GivenAs("a&b c\\xff=é")
	sameQuery(t, Policies, NoQuestion{}, "")
	sameQuery(t, Bans, BansQuestion{}, "")
	sameQuery(t, Bans, BansQuestion{given}, "policy=a%26b+c%5Cxff%3D%C3%A9")
	sameQuery(t, Bans, BansQuestion{GivenAs("")}, "policy=")
	sameQuery(t, Top, TopQuestion{Most: GivenAs("20")}, "n=20")
	sameQuery(t, Top, TopQuestion{GivenAs("5"), GivenAs("api"), GivenAs("used"), GivenAs("all")}, "by=used&n=5&nodes=all&policy=api")
	sameQuery(t, Page, PageQuestion{}, "since=")
	sameQuery(t, Page, PageQuestion{"1-2"}, "since=1-2")
}

// sameQuery wants a query of a question, and the question back.
func sameQuery[Question comparable, Answer any](t *testing.T, e Endpoint[Question, Answer], question Question, query string) {
	t.Helper()
	target, body, err := e.Write(question)
	want := e.Route().Path()
	if query != "" {
		want += "?" + query
	}
	assert.ErrorIf(t, err != nil || target != want || body != nil, "%+v: got %s with %q, %v; want %s", question, target, body, err, want)
	read, err := e.Read(httptest.NewRequest(http.MethodGet, target, nil))
	assert.ErrorIf(t, err != nil || read != question, "%s: got %+v, %v; want %+v", target, read, err, question)
}

// TestRoutes_are_distinct wants a path and a command of its own for each endpoint, in one order.
func TestRoutes_are_distinct(t *testing.T) {
	var names []string
	for _, r := range Routes() {
		escaped := url.PathEscape(r.Name)
		assert.ErrorIf(t, r.Name == "" || escaped != r.Name || r.About == "" || slices.Contains(names, r.Name), "%+v", r)
		names = append(names, r.Name)
	}
}
