package routetrace

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"
)

// earlyRead is what a limit goes by before any handler has certainly written it: a header of requests, or a
// placeholder of the authenticated user.
type earlyRead struct {
	place place
	name  string // of a header, in its canonical form, or of a placeholder
	user  bool   // it is a placeholder of the authenticated user

	unsure bool // a handler in front may have written it: its configuration does not tell
	later  bool // a handler behind the place writes it
}

// flow follows the routes of a server in their order, and warns of what requests cannot meet there. It is a [visitor].
type flow struct {
	found   *findings
	filter  HeaderFilter // of the server
	appends string       // see [appendingSource]

	here
	around []here // of the lists and routes around

	early  []earlyRead
	guards []openGuard
}

// here is what is known of the requests that come to a handler.
type here struct {
	// answered is the name of a handler that answers all of them in front of this one. Empty: there is none.
	answered string

	// same are the handlers of this list that all of its requests meet, in JSON.
	same []string

	// stripped are prefixes that are taken away from paths. If below is not empty it is one of them that the routes
	// around still ask for.
	stripped []string
	below    string

	// narrowed says that the requests are those of some methods or paths, or that this is not known.
	narrowed bool

	front headerWrites
	open  []int // those of early that handlers to come are behind

	openGuards []int // those of guards that handlers to come are behind

	// within are the matchers of the routes around that have any, the outermost first, and outer the handlers in front
	// that warnings know.
	within []caddyhttp.MatcherSets
	outer  []outerHandler

	// rewritten says from which of within on matchers see paths that a handler in front has changed: 1 from the outermost on. 0:
	// none does.
	rewritten int

	own caddyhttp.MatcherSets // of the route that the handler itself stands in

	// waiters are those in front of which requests here may have a place.
	waiters []waiterInFront

	errors bool // the list is one of error routes
}

func (f *flow) beginList(errors bool) {
	f.around = append(f.around, f.here)
	f.same = nil
	if f.errors = errors; errors { // whose requests may have any path, and have left the handlers in front
		f.stripped, f.outer, f.waiters, f.openGuards = nil, nil, nil, nil
	}
}

func (f *flow) endList() {
	errors, before := f.errors, f.leave()
	f.answered, f.same, f.errors = before.answered, before.same, before.errors
	if errors {
		f.outer, f.waiters, f.openGuards = before.outer, before.waiters, before.openGuards
	}
}

func (f *flow) beginRoute(route *caddyhttp.Route) {
	f.around = append(f.around, f.here)
	f.own = route.MatcherSets
	if len(route.MatcherSets) > 0 {
		f.within = append(f.within, route.MatcherSets)
	}
	if f.below == "" {
		f.below = f.goneFrom(route.MatcherSets)
	}
	f.narrowed = f.narrowed || Narrows(route.MatcherSets)
}

// endRoute forgets what holds for the requests of the route alone. Requests that pass a terminal route, or one of a
// group, do not come to the next one.
func (f *flow) endRoute(route *caddyhttp.Route) {
	before := f.leave()
	f.below, f.narrowed, f.within, f.own = before.below, before.narrowed, before.within, before.own
	f.rewritten = min(f.rewritten, len(f.within)+1)
	if route.Group != "" || len(route.MatcherSets) > 0 {
		f.answered, f.same = before.answered, before.same
	}
	if route.Terminal || route.Group != "" {
		f.front, f.open, f.outer, f.waiters = before.front, before.open, before.outer, before.waiters
		f.openGuards, f.rewritten = before.openGuards, before.rewritten
	}
	if route.Terminal {
		f.stripped = before.stripped
		return
	}
	var stripped []string
	for _, prefix := range f.stripped {
		if slices.Contains(before.stripped, prefix) || route.Group == "" && matchesBelow(route.MatcherSets, prefix) {
			stripped = append(stripped, prefix)
		}
	}
	f.stripped = stripped
}

// leave returns what was known before the list or route.
func (f *flow) leave() here {
	last := len(f.around) - 1
	before := f.around[last]
	f.around = f.around[:last]
	return before
}

func (f *flow) visit(handler caddyhttp.MiddlewareHandler, place place) bool {
	if h, ok := handler.(Warnable); ok {
		f.subject(h.WarningSubject(), place)
	}
	f.found.note(handler)
	f.lookBehindGuards(handler)
	writes := writesOf(handler)
	for _, i := range f.open {
		f.early[i].later = f.early[i].later || writes.follows(&f.early[i])
	}
	f.front.add(writes)
	f.noteOuter(handler)
	f.rewrite(handler)
	return true
}

func (f *flow) passed(handler caddyhttp.MiddlewareHandler) {
	if f.answered == "" {
		f.answered = answersAll(handler)
	}
}

// userPrefix begins the placeholders of the authenticated user.
const userPrefix = "http.auth.user."

// subject warns of what a handler with limits cannot mean at its place.
func (f *flow) subject(s *Subject, place place) {
	for _, text := range append(slices.Clip(s.Alone), keptFromPage(s.Opening, f.within)...) {
		f.found.add(place, text)
	}
	twice := slices.Contains(f.same, s.JSON)
	below := f.below
	for i := 0; below == "" && i < len(s.Matches); i++ {
		below = f.goneFrom(s.Matches[i])
	}
	if below == "" && s.Usage != "" {
		below = f.goneFrom(caddyhttp.MatcherSets{{&caddyhttp.MatchPath{s.Usage}}})
	}
	switch {
	case f.answered != "":
		f.found.add(place, "no request comes to this limit, because "+f.answered+" in front of it answers all requests; "+
			"put the limit in front, or give "+f.answered+" a matcher")
	case below != "":
		f.found.add(place, "a limit is for paths below "+below+", which handle_path or uri strip_prefix has taken away in front of it; "+
			"write the paths without "+below+", or put the limit in front")
	case twice:
		f.found.add(place, "the same limits stand twice in one list of handlers, so that each request is charged twice; "+
			"leave one out, which may come from a snippet that is imported twice")
	}
	f.warnOfOuter(s, place)
	f.warnOfHeaders(s, place)
	if s.ByClient && f.appends != "" {
		f.found.add(ofServer(place.Server), f.appends)
	}
	if !twice {
		f.noteWaiter(s, place)
		f.noteGuards(s, place)
	}
	for _, policy := range s.Rejecting {
		if !f.narrowed {
			f.found.add(place, fmt.Sprintf("policy %q: on_empty_key reject refuses every request without the body's value, also GET of a page; "+
				"write match method POST in the policy, or give the directive a matcher of methods or paths", policy))
		}
	}
	if s.Unnamed && !twice {
		f.found.unnamed = append(f.found.unnamed, place)
	}
	f.same = append(slices.Clip(f.same), s.JSON)
	for _, name := range s.Headers {
		f.read(earlyRead{place: place, name: name})
	}
	for _, name := range s.Placeholders {
		if strings.HasPrefix(name, userPrefix) {
			f.read(earlyRead{place: place, name: name, user: true})
		} else if caddyfile, _ := meant(name); caddyfile != "" {
			f.found.unset = append(f.found.unset, finding{place, name})
		}
	}
}

// read notes what a limit goes by, unless a handler in front has written it.
func (f *flow) read(r earlyRead) {
	if f.front.has(&r) {
		return
	}
	r.unsure = f.front.unknown
	f.open = append(slices.Clip(f.open), len(f.early))
	f.early = append(f.early, r)
}

// rewrite notes what a handler makes of paths. Behind handlers that are not known, and behind other changes, any path
// is possible.
func (f *flow) rewrite(handler caddyhttp.MiddlewareHandler) {
	r, is := handler.(*rewrite.Rewrite)
	if is || factsOf(handler).Name == "invoke" {
		f.noteRewrite()
	}
	switch {
	case !is && (factsOf(handler).Name == "invoke" || isForeign(handler)):
		f.stripped = nil
	case !is:
	case r.URI != "" || len(r.URISubstring) > 0 || len(r.PathRegexp) > 0 || strings.Contains(r.StripPathPrefix, "{"):
		f.stripped = nil
	case strings.Trim(r.StripPathPrefix, "/") != "":
		prefix := "/" + strings.Trim(r.StripPathPrefix, "/")
		f.stripped = append(slices.Clip(f.stripped), strings.ToLower(prefix))
	}
}

// goneFrom returns the prefix of all paths that matchers are for, if it has been taken away from paths; empty otherwise.
func (f *flow) goneFrom(sets caddyhttp.MatcherSets) (gone string) {
	for _, set := range sets {
		if gone = f.goneFromSet(set); gone == "" {
			return ""
		}
	}
	return gone
}

func (f *flow) goneFromSet(set caddyhttp.MatcherSet) string {
	for _, matcher := range set {
		paths, is := matcher.(*caddyhttp.MatchPath)
		if !is || len(*paths) == 0 {
			continue
		}
		for _, prefix := range f.stripped {
			if all(*paths, func(path string) bool { return isBelow(path, prefix) }) {
				return prefix
			}
		}
	}
	return ""
}

// isBelow reports whether a pattern of paths is for a prefix and what is below it.
func isBelow(pattern, prefix string) bool {
	rest, found := strings.CutPrefix(strings.ToLower(pattern), prefix)
	return found && (rest == "" || rest == "*" || rest[0] == '/')
}

func all(texts []string, holds func(string) bool) bool {
	return !slices.ContainsFunc(texts, func(text string) bool { return !holds(text) })
}

// matchesBelow reports whether matchers match all paths below a prefix.
func matchesBelow(sets caddyhttp.MatcherSets, prefix string) bool {
	return len(sets) == 0 || slices.ContainsFunc(sets, func(set caddyhttp.MatcherSet) bool {
		if len(set) != 1 {
			return false
		}
		paths, is := set[0].(*caddyhttp.MatchPath)
		return is && slices.ContainsFunc(*paths, func(path string) bool {
			path = strings.ToLower(path)
			return path == "*" || path == "/*" || path == prefix+"*" || path == prefix+"/*"
		})
	})
}

// answersAll returns the name of what answers all requests that come to a handler; empty where some may pass it, or
// where that is not known.
func answersAll(handler caddyhttp.MiddlewareHandler) string {
	switch handler := handler.(type) {
	case *caddyhttp.Subroute:
		if handler.Errors != nil { // behind which requests may go on
			return ""
		}
		for i := range handler.Routes {
			if route := &handler.Routes[i]; len(route.MatcherSets) == 0 && route.Group == "" {
				for _, inside := range route.Handlers {
					if name := answersAll(inside); name != "" {
						return name
					}
				}
			}
		}
		return ""
	case *caddyhttp.StaticResponse:
		status, err := strconv.Atoi(string(handler.StatusCode))
		switch {
		case handler.Abort:
			return "abort"
		case handler.StatusCode != "" && (err != nil || status < 200):
			return ""
		case len(handler.Headers["Location"]) > 0:
			return "redir"
		}
		return "respond"
	}
	if facts := factsOf(handler); facts.Effect() == Answers {
		return facts.Name
	}
	return ""
}

// noteGuards notes what of a handler's guards handlers to come decide.
func (f *flow) noteGuards(s *Subject, place place) {
	for i := range s.Guards {
		g := openGuard{Guard: s.Guards[i], place: place, within: slices.Clone(f.within), exact: exactPaths(f.own)}
		g.mayBeAsked = g.CountsUnauthorized && !asksForCredential(append(g.within, g.Match))
		if len(f.guards) < maxGuards {
			f.openGuards, f.guards = append(slices.Clip(f.openGuards), len(f.guards)), append(f.guards, g)
		}
	}
}

// lookBehindGuards warns of guards in front of a handler.
func (f *flow) lookBehindGuards(handler caddyhttp.MiddlewareHandler) {
	asks, isApplication := asksForPassword(handler), isApplication(handler)
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
