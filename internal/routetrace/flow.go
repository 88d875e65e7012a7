package routetrace

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"
)

// warner collects what is found on the way of requests through the routes of a server, its error routes or a named route.
type warner struct {
	found   *findings
	server  string       // its name, and where it listens
	filter  HeaderFilter // of the server
	appends string       // see [appendingSource]

	early  []earlyRead
	guards []openGuard
}

// flow is what is known of the requests that come to a handler. A flow is passed along the routes as a value: what is behind a
// list or a route is made of the flow in front of the list or route and the flow at its end.
type flow struct {
	*warner

	// answered is the name of a handler that answers all of the requests in front of this handler. Empty: no handler does.
	answered string

	// same are the handlers of this list that all of its requests meet, in JSON.
	same []string

	// stripped are prefixes that are taken away from paths. If below is not empty it is one of them that the routes
	// around still ask for.
	stripped []string
	below    string

	// narrowed says that the requests are those of some methods or paths, or that this is not known.
	narrowed bool

	// within are the matchers of the routes around that have any, the outermost first, and own those of the route that
	// the handler itself stands in.
	within []caddyhttp.MatcherSets
	own    caddyhttp.MatcherSets

	moved movedPaths

	met
}

// met is what requests that come to a handler may have met in front of it.
type met struct {
	front headerWrites
	open  []int // indices of the warner's early reads that handlers to come are behind

	openGuards []int // indices of the warner's guards that handlers to come are behind

	outputs mapOutputs

	// outer are the handlers in front that warnings know, and waiters the policies in front of which requests here may have a
	// place.
	outer   []outerHandler
	waiters []waiterInFront
	places  []placesInFront

	// rewritten says from which of within on matchers see paths that a handler in front has changed: 1 from the outermost on. 0:
	// none does.
	rewritten int
}

// Warnings returns what the routes of servers can hardly mean, in the order of the routes, and what concerns several
// handlers at the end. No warning stands twice at a place: a site for HTTP and HTTPS, which is on two servers, is one.
func Warnings(trees map[string]*Tree) []Warning {
	found := new(findings)
	for _, name := range slices.Sorted(maps.Keys(trees)) {
		tree := trees[name]
		for i := range tree.lists {
			l := &tree.lists[i]
			f := flow{warner: &warner{
				found: found, server: tree.text(name), filter: NewHeaderFilter(tree.server), appends: appendingSource(tree.server),
			}}
			f.front.unknown = l.use != onRequests // what was in front of error routes and named routes is not known
			f.narrowed, f.moved.any = f.front.unknown, f.front.unknown
			f.behindList(l)
			found.addEarly(f.early)
		}
	}
	found.addUnset()
	found.addUnnamed()
	return found.warnings
}

// behindList takes requests through the routes of a list, and returns what is known of those that leave it.
func (f *flow) behindList(l *list) flow {
	at := *f
	at.same = nil
	if l.use == onErrors { // whose requests may have any path, and have left the handlers in front
		at.stripped, at.outer, at.waiters, at.places, at.openGuards = nil, nil, nil, nil, nil
		at.moved.any = true
	}
	for i := range l.routes {
		at = at.behindRoute(l.routes, i)
	}
	at.answered, at.same = f.answered, f.same
	at.moved.any = at.moved.any || l.use == onResponses && len(at.moved.moves) > len(f.moved.moves)
	if l.use == onErrors {
		at.outer, at.waiters, at.places, at.openGuards = f.outer, f.waiters, f.places, f.openGuards
	}
	return at
}

// behindRoute takes requests through the handlers of a route of a list, and returns what is known of those that come to the next
// route. Requests that pass a terminal route, or a route of a group, do not come to the next route.
func (f *flow) behindRoute(routes []route, number int) flow {
	at, r := *f, &routes[number]
	at.own = r.matchers
	if len(r.matchers) > 0 {
		at.within = append(slices.Clip(f.within), r.matchers)
	}
	if f.below == "" {
		at.below = f.goneFrom(r.matchers)
	}
	at.narrowed = f.narrowed || Narrows(r.matchers)
	place := r.place
	place.Server = f.server
	if isForRoot(r) {
		f.found.add(place, "the matcher / is for the path / alone, and for no path below it; leave it out for all requests, "+
			"or for that page alone give the matcher a name, with path / /index.html")
	}
	for i := range r.handlers {
		at.meet(&r.handlers[i], place)
	}
	behind := *f
	if r.group == "" && len(r.matchers) == 0 {
		behind.answered, behind.same = at.answered, at.same
	}
	if r.group == "" && !r.terminal {
		behind.met = at.met
		behind.rewritten = min(at.rewritten, len(f.within)+1)
	}
	if !r.terminal {
		behind.moved = at.moved
		behind.moved.leaveRoute(routes, number, f)
		behind.stripped = slices.DeleteFunc(slices.Clone(at.stripped), func(prefix string) bool {
			comesFromHere := r.group == "" && matchesBelow(r.matchers, prefix)
			return !slices.Contains(f.stripped, prefix) && !comesFromHere
		})
	}
	return behind
}

// isForRoot reports whether a route has limits alone, for the path / alone.
func isForRoot(r *route) bool {
	if paths := onlyPaths(r.matchers); len(paths) != 1 || paths[0] != "/" {
		return false
	}
	return !slices.ContainsFunc(r.handlers, func(h handler) bool {
		_, limits := h.module.(Warnable)
		return !limits
	})
}

// meet takes requests to a handler and through those inside of it.
func (f *flow) meet(h *handler, place place) {
	if limit, ok := h.module.(Warnable); ok {
		f.subject(limit.WarningSubject(), place)
	}
	f.found.note(h.module)
	f.lookBehindGuards(h)
	writes := writesOf(h)
	for _, i := range f.open {
		f.early[i].later = f.early[i].later || writes.follows(&f.early[i])
	}
	f.front.add(writes)
	f.outputs = f.outputs.with(h.module)
	f.noteOuter(h)
	f.rewrite(h)
	f.noteMove(h)
	for i := range h.lists {
		if h.lists[i].use != whereInvoked {
			*f = f.behindList(&h.lists[i])
		}
	}
	if f.answered == "" {
		f.answered = answersAll(h)
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
	f.warnOfMoves(s, place)
	f.warnOfHeaders(s, place)
	if s.ByClient && f.appends != "" {
		f.found.add(ofServer(f.server), f.appends)
	}
	if !twice {
		f.noteWaiter(s, place)
		f.notePlaces(s, place)
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
	f.warnOfPlaceholders(s, place)
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
func (f *flow) rewrite(h *handler) {
	r, is := h.module.(*rewrite.Rewrite)
	invokes := h.Name == "invoke"
	if is || invokes {
		f.noteRewrite()
	}
	switch {
	case !is && (invokes || isForeign(h.module)):
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
func answersAll(h *handler) string {
	static, isStatic := h.module.(*caddyhttp.StaticResponse)
	switch {
	case isStatic:
		return answersStatically(static)
	case h.kind == Answers:
		return h.Name
	case h.Name != "subroute" || listFor(onErrors, h.lists) != nil: // behind error routes requests may go on
		return ""
	}
	for i := range h.next().routes {
		if r := &h.next().routes[i]; len(r.matchers) == 0 && r.group == "" {
			for j := range r.handlers {
				if name := answersAll(&r.handlers[j]); name != "" {
					return name
				}
			}
		}
	}
	return ""
}

// answersStatically returns the directive of a static response, if that ends all requests.
func answersStatically(response *caddyhttp.StaticResponse) string {
	status, err := strconv.Atoi(string(response.StatusCode))
	switch {
	case response.Abort:
		return "abort"
	case response.StatusCode != "" && (err != nil || status < 200):
		return ""
	case len(response.Headers["Location"]) > 0:
		return "redir"
	}
	return "respond"
}

// keptFromPage returns the warnings of policies whose page that waits opens what they reserve, by the matchers around: the page's
// style sheet, which a browser has to load from the page's own URL, may not come to the limit.
func keptFromPage(policies []string, within []caddyhttp.MatcherSets) (texts []string) {
	const text = "policy %q: browsers load the style sheet of the page that waits from the page's own URL, which %s in front of the " +
		"limit tells apart from the page, so that none gets in; leave that out, or write it as match in the policy"
	if len(policies) == 0 {
		return nil
	}
	for _, sets := range within {
		if what := differsForStyleSheet(sets); what != "" {
			for _, policy := range policies {
				texts = append(texts, fmt.Sprintf(text, policy, what))
			}
			return texts
		}
	}
	return nil
}

// differsForStyleSheet names what matchers ask for that a page and its style sheet differ in; empty: nothing that is known.
func differsForStyleSheet(sets caddyhttp.MatcherSets) string {
	var asked MatcherInputs
	asked.addSets(sets, false)
	for _, header := range asked.Headers {
		if strings.HasPrefix(header.Name, "Sec-Fetch-") || slices.Contains(headersOfNavigations, header.Name) {
			return "a matcher of the header " + header.Name
		}
	}
	if asksForQuery(sets, false) {
		return "a matcher of the query"
	}
	return ""
}

// headersOfNavigations are those that browsers send otherwise with style sheets, in their canonical form.
var headersOfNavigations = []string{"Accept", "Referer", "Upgrade-Insecure-Requests"}

// asksForQuery reports whether matchers, which may stand within not, ask for requests without a query, or without some parameters.
func asksForQuery(sets caddyhttp.MatcherSets, negated bool) bool {
	return slices.ContainsFunc(sets, func(set caddyhttp.MatcherSet) bool {
		return slices.ContainsFunc(set, func(matcher any) bool {
			switch matcher := matcher.(type) {
			case *caddyhttp.MatchQuery:
				return negated || len(*matcher) == 0
			case *caddyhttp.MatchNot:
				return asksForQuery(matcher.MatcherSets, !negated)
			case *caddyhttp.MatchExpression:
				return strings.Contains(matcher.Expr, "http.request.uri.query}") || strings.Contains(matcher.Expr, "http.request.uri}")
			}
			return false
		})
	})
}
