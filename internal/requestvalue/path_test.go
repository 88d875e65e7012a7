package requestvalue

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
)

func TestPath(t *testing.T) {
	wantShown(t, Path, map[string]string{
		"":                          "/",
		"/":                         "/",
		"*":                         "*",
		"login":                     "!path",
		"/login":                    "/login",
		"/Login/":                   "/login",
		"/login//":                  "/login",
		"//login":                   "/login",
		"/./login":                  "/login",
		"/x/../login":               "/login",
		"/x;/../login":              "/login",
		"/../../login":              "/login",
		"/static/..;/login":         "/login",
		"/login;x.json":             "/login",
		"/;x/login":                 "/login",
		"/login.json":               "/login",
		"/login.":                   "/login",
		"/login.json/":              "/login",
		"/login.a.b":                "/login.a.b",
		"/.env":                     "/.env",
		"/v1.2/users":               "/v1.2/users",
		"/index.php/login":          "/login",
		"/index.php":                "/",
		"/index.php/INDEX.php/x":    "/x",
		"/\u0131ndex.php/x":         "/x",
		"/login.php/x":              "/login",
		"/a/b.php":                  "/a/b",
		"/a\\b":                     "/a\\b",
		"/\u00c9t\u00e9":            "/\u00e9t\u00e9",
		"/u/eyJh.eyJi.c2ln":         "/u/eyjh.eyji.c2ln",
		"/login\n":                  "!control",
		"/login\xff":                "!utf8",
		"/10.0.0.1":                 "/10.0.0.1",
		"/api/items/\u212a":         "/api/items/k",
		"/a b":                      "/a b",
		"/.well-known/acme-x/t.txt": "/.well-known/acme-x/t",
		"/%73earch":                 "/search",
		"/%25252573earch":           "/search",
		"/a%2fb":                    "/a/b",
		"/x/%2e%2e/login%3bx":       "/login",
		"/login%0a":                 "!control",
		"/100%":                     "/100%",
		"/100%/%61":                 "/100%/a",
		"/%4;%1":                    "/%4",
		deep(maxDecodings):          "/a",
		deep(maxDecodings + 1):      "!path",
		"/search/__data.json":       "/search",
		"/search//__data.json":      "/search",
		"/__data.json":              "/",
		"/search.data":              "/search",
		"/search/_.data":            "/search",
		"/search/.data":             "/search",
		"/_root.data":               "/",
		"/v1.2.3.data/__data.json":  "/v1.2.3",
		"/database":                 "/database",
	})
}

// deep returns a path that is the path /a after so many decodings.
func deep(decodings int) string { return "/%" + strings.Repeat("25", decodings-1) + "61" }

// TestPath_apart has what a cut at the first dot made one: a stranger then uses up a client's quota.
func TestPath_apart(t *testing.T) {
	for _, paths := range [][2]string{
		{"/u/eyJh.eyJi.c2ln", "/u/eyJh.eyJk.c2ln"}, {"/ip/10.0.0.1", "/ip/10.0.0.2"}, {"/v/1.2.3", "/v/1.2.4"}, {"/\u00e9t\u00e9", "/ete"},
	} {
		assert.ErrorIf(t, Path(paths[0]) == Path(paths[1]), "%v are one", paths)
	}
}

func TestPathForms(t *testing.T) {
	for path, want := range map[string][2]string{
		"/login/":                {"/login", "/login"},
		"/Login.JSON":            {"/login.json", "/login.json"},
		"/index.php/login":       {"/index.php", "/login"},
		"/wp-login.php/x":        {"/wp-login.php", "/wp-login.php"},
		"/static/..;/login":      {"/login", "/login"},
		"/;/login":               {"/login", "/login"},
		"//":                     {"/", "/"},
		"/a.php/index.php/b":     {"/a.php", "/a.php"},
		"/index.php/a.php/b":     {"/index.php", "/a.php"},
		"/caf\u00c9/../x/./y;":   {"/x/y", "/x/y"},
		"/login\n":               {"/login", "/login"},
		"/login\xff":             {"/login", "/login"},
		"/\x00x/..\x7f/login":    {"/login", "/login"},
		"/%256cogin":             {"/login", "/login"},
		"/login/__data.json":     {"/login", "/login"},
		"/login.data":            {"/login", "/login"},
		"/b.json/_.data":         {"/b.json", "/b.json"},
		"/login;%2fx":            {"/login", "/login/x"},
		"/a.php/%2e%2e/x":        {"/a.php", "/x"},
		"/a.php" + deep(20):      {"/a.php", "/a.php"},
		"/login;" + deep(20)[1:]: {"/login", "/login"},
	} {
		forms := PathForms(path)
		for _, form := range want {
			assert.ErrorIf(t, !slices.Contains(forms, form), "%q has the forms %q, not %q", path, forms, form)
		}
	}
	for _, path := range []string{"", "/", "/login", "/a/b.json", "/.env", "/v1.2/x", "*", "\n"} {
		for _, form := range PathForms(path) {
			assert.ErrorIf(t, form != path, "%q has the form %q", path, form)
		}
	}
}

func TestURI(t *testing.T) {
	for _, test := range [][3]string{
		{"/A/b.js", "X=1", "/a/b?X=1"}, {"/a", "", "/a"}, {"/a?b", "", "/a%3fb"}, {"/a?b", "c?d", "/a%3fb?c?d"},
	} {
		assert.Equal(t, URI(test[0], test[1]).Text(), test[2], "of the path %q and the query %q", test[0], test[1])
	}
}

// pathPieces are what decodings, scripts, parameters and data are made of.
var pathPieces = []string{
	"/", "/", "/a", "/index.php", "/b.php", ".data", "/__data.json", "/_.data", "/..", "/.", ";", ";x", ".", ".json",
	"%", "%25", "25", "2e", "2f", "3b", "61", "E",
}

// TestPath_twice has made paths: the value of a value is itself.
func TestPath_twice(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range assert.Rounds(100_000, 5_000_000) {
		path := "/"
		for range random.IntN(9) {
			path += pathPieces[random.IntN(len(pathPieces))]
		}
		once := Path(path)
		if once.Kind() != bodyvalue.KindText {
			continue
		}
		twice := Path(once.Text())
		assert.FatalIf(t, twice != once, "%q is %q, and that is %q", path, once.Text(), twice.Text())
	}
}
