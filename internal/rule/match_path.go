package rule

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/requestvalue"
)

// This file is about paths in matchers. Routers take /login/, //login and /login;x for /login, and Caddy's matcher does not.
// A policy that is for /login is for each path that some router takes for it. Within not, where a path is left out, it is
// left out only if all routers see that path: /static/..;/login is no static file.

// pathMatcher is a matcher of paths that also compares the forms in which routers see a path.
type pathMatcher struct {
	paths caddyhttp.MatchPath

	// within says that the matcher stands within not: it holds only if all forms have one of the paths. Otherwise one form is
	// enough.
	within bool

	// extensions says that a path without a wildcard also meets what is that path, a dot and an extension, as Rails has it.
	extensions bool
}

// matches reports whether the request's path, as it came and in its forms, has one of the paths.
func (m *pathMatcher) matches(r *http.Request, forms []*http.Request) (bool, error) {
	matches, err := m.matchesOne(r)
	if err != nil || matches != m.within {
		return matches, err
	}
	for _, form := range forms {
		if matches, err = m.matchesOne(form); err != nil || matches != m.within {
			return matches, err
		}
	}
	return m.within, nil
}

// matchesOne reports whether the path of a request has one of the paths.
func (m *pathMatcher) matchesOne(r *http.Request) (bool, error) {
	matches, err := m.paths.MatchWithError(r)
	return matches || err == nil && m.meetsExtension(r.URL.Path), err
}

// meetsExtension reports whether a path is one of the paths, a dot and an extension.
func (m *pathMatcher) meetsExtension(path string) bool {
	return m.extensions && slices.ContainsFunc(m.paths, func(pattern string) bool {
		if strings.ContainsAny(pattern, "*{%") || len(path) <= len(pattern) || path[len(pattern)] != '.' {
			return false
		}
		return strings.EqualFold(path[:len(pattern)], pattern) && strings.IndexByte(path[len(pattern):], '/') < 0
	})
}

// formsOf returns requests with the forms in which routers see a request's path; no request where all routers see the path as it is. A path
// with a slash at its end keeps one besides, for patterns such as /api/*.
func formsOf(r *http.Request) (forms []*http.Request) {
	slash := endsWithSlash(r.URL.Path)
	for _, form := range requestvalue.PathForms(r.URL.Path) {
		forms = append(forms, withPath(r, form))
		if slash && form != "/" {
			forms = append(forms, withPath(r, form+"/"))
		}
	}
	return forms
}

// endsWithSlash reports whether a path has a slash at its end, or only parameters behind it: /api/;x.
func endsWithSlash(path string) bool {
	last := path[strings.LastIndexByte(path, '/')+1:]
	return last == "" || last[0] == ';'
}

// withoutSlash adds to patterns that end with a slash the same patterns without it: who writes /admin/login/ means what routers without
// slashes at the end take for it, too.
func withoutSlash(patterns caddyhttp.MatchPath) caddyhttp.MatchPath {
	all := slices.Clone(patterns)
	for _, pattern := range patterns {
		if bare := strings.TrimRight(pattern, "/"); bare != "" && bare != pattern && !strings.ContainsAny(pattern, "*{%") {
			all = append(all, bare)
		}
	}
	return all
}

// withPath returns a copy of a request that has another path, for matchers.
func withPath(r *http.Request, path string) *http.Request {
	other := r.WithContext(r.Context())
	other.URL = new(url.URL)
	*other.URL = *r.URL
	other.URL.Path, other.URL.RawPath = path, ""
	return other
}
