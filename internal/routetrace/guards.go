package routetrace

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/fileserver"
)

// This file is about policies in front of log-ins: which of their requests do not count, and which count that are no failures.

// Guard is a policy that counts failures by count_if, or that bans.
type Guard struct {
	Policy string

	// CountsFailures says that the policy has count_if, CountsUnauthorized that responses of 401 count by it.
	CountsFailures, CountsUnauthorized bool

	Match caddyhttp.MatcherSets // its own; empty: all requests
}

// openGuard is a guard in front of handlers to come.
type openGuard struct {
	Guard
	place  place
	within []caddyhttp.MatcherSets // of the routes around it that have matchers, the outermost first

	exact      []string // paths of the directive's own matcher that have other spellings, see [exactPaths]
	mayBeAsked bool     // basic_auth may ask for a password of requests that count
}

// maxGuards is how many guards are kept of those in front, so that a list of many takes no longer than it is.
const maxGuards = 64

// asksForPassword reports whether a handler is basic_auth.
func asksForPassword(handler caddyhttp.MiddlewareHandler) bool {
	login, ok := handler.(*caddyauth.Authentication)
	if !ok {
		return false
	}
	_, ok = login.Providers["http_basic"].(*caddyauth.HTTPBasicAuth)
	return ok
}

// asksForCredential reports whether matchers may ask for the header Authorization. Those of other authors may.
func asksForCredential(around []caddyhttp.MatcherSets) bool {
	var inputs MatcherInputs
	for _, sets := range around {
		inputs.addSets(sets, false)
		for _, set := range sets {
			if slices.ContainsFunc(set, isForeign) {
				return true
			}
		}
	}
	return slices.ContainsFunc(inputs.Headers, func(h headerInput) bool { return h.Name == "Authorization" })
}

// commonRoutes returns how many of the outermost matchers are the same.
func commonRoutes(a, b []caddyhttp.MatcherSets) (common int) {
	for common < min(len(a), len(b)) && reflect.DeepEqual(a[common], b[common]) {
		common++
	}
	return common
}

// applications are the handlers that hand requests to programs, which decide themselves what a path means.
var applications = []string{"reverse_proxy", "php", "cgi"}

func isApplication(handler caddyhttp.MiddlewareHandler) bool {
	facts := factsOf(handler)
	return slices.Contains(applications, facts.Name) && !facts.ResponseRoutes
}

// exactPaths returns the paths of a directive's matcher that meet no other spelling: without a wildcard, and without another
// path beside them that begins as they do or covers it.
func exactPaths(own caddyhttp.MatcherSets) (exact []string) {
	var all caddyhttp.MatchPath
	for _, set := range own {
		for _, matcher := range set {
			if paths, is := matcher.(*caddyhttp.MatchPath); is {
				all = append(all, *paths...)
			}
		}
	}
	for _, path := range all {
		if !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") || strings.ContainsAny(path, "*{%") {
			continue
		}
		isCovered := slices.ContainsFunc(all, func(other string) bool {
			return other != path && strings.HasPrefix(other, path) || strings.Contains(other, "*") && meetsPath(caddyhttp.MatchPath{other}, path+"/")
		})
		if !isCovered {
			exact = AppendNew(exact, path)
		}
	}
	return exact
}

// meetsPath reports whether a matcher of paths meets a path.
func meetsPath(paths caddyhttp.MatchPath, path string) bool {
	ctx := context.WithValue(context.Background(), caddy.ReplacerCtxKey, caddy.NewEmptyReplacer())
	r := (&http.Request{Method: http.MethodPost, URL: &url.URL{Path: path}}).WithContext(ctx)
	matches, err := paths.MatchWithError(r)
	return matches && err == nil
}

// asksForFile reports whether matchers select requests by the files that are there.
func asksForFile(sets caddyhttp.MatcherSets) bool {
	return slices.ContainsFunc(sets, func(set caddyhttp.MatcherSet) bool {
		return slices.ContainsFunc(set, func(matcher any) bool {
			_, is := matcher.(*fileserver.MatchFile)
			return is
		})
	})
}

// exactText is the warning of a guard for exact paths.
func exactText(g *Guard, paths []string) string {
	first := paths[0]
	others := "Express, Koa, Fiber, Rails and Mojolicious take " + first + "/ for it, Rails " + first + ".json, Tomcat and Jetty " + first + ";x"
	if strings.HasSuffix(first, ".php") {
		others = "PHP takes " + first + "/x for it"
	}
	var patterns []string
	for _, path := range paths {
		if g.CountsFailures {
			patterns = append(patterns, path+"*")
		} else {
			patterns = append(patterns, path, path+"/*", path+".*", path+";*")
		}
	}
	does := "bans by requests"
	if g.CountsFailures {
		does = "counts failures"
	}
	return fmt.Sprintf("policy %q %s of exactly %s; %s; write the matcher path %s",
		g.Policy, does, strings.Join(paths, ", "), others, strings.Join(patterns, " "))
}

// mayMeet reports whether requests of a path may meet all matchers. What is not known of a matcher counts as yes.
func mayMeet(around []caddyhttp.MatcherSets, path string) bool {
	return !slices.ContainsFunc(around, func(sets caddyhttp.MatcherSets) bool {
		return !slices.ContainsFunc(sets, func(set caddyhttp.MatcherSet) bool { return setMayMeet(set, path) })
	})
}

func setMayMeet(set caddyhttp.MatcherSet, path string) bool {
	return !slices.ContainsFunc(set, func(matcher any) bool {
		switch matcher := matcher.(type) {
		case *caddyhttp.MatchPath:
			return !meetsPath(*matcher, path)
		case *caddyhttp.MatchNot:
			return slices.ContainsFunc(matcher.MatcherSets, func(set caddyhttp.MatcherSet) bool { return setCertainlyMeets(set, path) })
		}
		return false
	})
}

// certainlyMeets reports whether all requests of a path meet all matchers.
func certainlyMeets(around []caddyhttp.MatcherSets, path string) bool {
	return !slices.ContainsFunc(around, func(sets caddyhttp.MatcherSets) bool {
		return !slices.ContainsFunc(sets, func(set caddyhttp.MatcherSet) bool { return setCertainlyMeets(set, path) })
	})
}

func setCertainlyMeets(set caddyhttp.MatcherSet, path string) bool {
	return !slices.ContainsFunc(set, func(matcher any) bool {
		paths, is := matcher.(*caddyhttp.MatchPath)
		return !is || !meetsPath(*paths, path)
	})
}
