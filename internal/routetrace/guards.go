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

func isApplication(h *handler) bool {
	return slices.Contains(applications, h.Name) && !h.ResponseRoutes
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

// noteGuards notes what of a handler's guards handlers to come decide.
func (f *flow) noteGuards(s *Subject, place place) {
	for i := range s.Guards {
		g := openGuard{Guard: s.Guards[i], place: place, within: f.within, exact: exactPaths(f.own)}
		g.mayBeAsked = g.CountsUnauthorized && !asksForCredential(append(slices.Clip(g.within), g.Match))
		if len(f.guards) < maxGuards {
			f.openGuards, f.guards = append(slices.Clip(f.openGuards), len(f.guards)), append(f.guards, g)
		}
	}
}

// lookBehindGuards warns of guards in front of a handler.
func (f *flow) lookBehindGuards(h *handler) {
	asks, isApplication := asksForPassword(h.module), isApplication(h)
	for _, i := range f.openGuards {
		switch g := &f.guards[i]; {
		case asks && g.mayBeAsked && f.meetsGuard(g):
			g.mayBeAsked = false
			f.found.add(g.place, fmt.Sprintf("policy %q: basic_auth behind it answers 401 to who has sent no password yet, which counts as "+
				"a wrong one; give the limit the matcher header Authorization *", g.Policy))
		case isApplication && len(g.exact) > 0:
			f.lookAtPaths(g)
		}
	}
}

// meetsGuard reports whether requests certainly meet both a guard in front and a handler here, as [flow.meets] does.
func (f *flow) meetsGuard(g *openGuard) bool {
	common := commonRoutes(g.within, f.within)
	return len(f.within) == common || len(g.within) == common && len(g.Match) == 0
}

// lookAtPaths warns of a guard's exact paths that an application behind it gets in other spellings too. The first application
// that certainly gets the exact path decides.
func (f *flow) lookAtPaths(g *openGuard) {
	var open, told []string
	known := f.within
	if f.rewritten > 0 { // matchers behind a rewrite see another path
		known = known[:min(len(known), f.rewritten-1)]
	}
	behind := known[min(len(known), commonRoutes(g.within, f.within)):]
	for _, path := range g.exact {
		switch {
		case !mayMeet(behind, path):
			open = append(open, path)
		case mayMeet(known, path+"/") && !f.isGuardedElsewhere(g, path+"/"):
			told = append(told, path)
		case len(known) < len(f.within) || !certainlyMeets(behind, path):
			open = append(open, path)
		}
	}
	g.exact = open
	if len(told) > 0 {
		f.found.add(g.place, exactText(&g.Guard, told))
	}
}

// noteRewrite notes that paths change. A rewrite to a file that is there, as php_fastcgi has it, leaves each path to its script.
// Of any other one it is not known what becomes of the paths that may meet it.
func (f *flow) noteRewrite() {
	if asksForFile(f.own) {
		if f.rewritten == 0 {
			f.rewritten = len(f.within) + 1
		}
		return
	}
	for _, i := range f.openGuards {
		g := &f.guards[i]
		g.exact = slices.DeleteFunc(g.exact, func(path string) bool { return mayMeet(f.within, path) || mayMeet(f.within, path+"/") })
	}
}

// isGuardedElsewhere reports whether another directive with the guard's policy may meet a path.
func (f *flow) isGuardedElsewhere(g *openGuard, path string) bool {
	return slices.ContainsFunc(f.guards, func(other openGuard) bool {
		return other.Policy == g.Policy && mayMeet(other.within, path)
	})
}
