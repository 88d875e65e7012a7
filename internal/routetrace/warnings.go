package routetrace

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	caddymap "github.com/caddyserver/caddy/v2/modules/caddyhttp/map"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// Warning is about what a configuration can hardly mean.
type Warning struct {
	// Place is where it stands. A place of several handlers lists them.
	Place string

	// Text says what is wrong, and then what to write.
	Text string
}

// Subject is what warnings depend on of a handler with limits.
type Subject struct {
	// Alone are the texts of the warnings that the handler causes whatever is around it.
	Alone []string

	// Headers are those of requests that the limits go by, in their canonical form, and Placeholders the names of all
	// placeholders that they go by.
	Headers, Placeholders []string

	// Matches are the matchers of its policies, and Usage is the path of its usage page.
	Matches []caddyhttp.MatcherSets
	Usage   string

	// Rejecting are the policies that refuse requests without a value of the body, and whose own matchers do not narrow
	// the requests, see [Narrows].
	Rejecting []string

	// Opening are the policies whose page that waits opens what they reserve.
	Opening []string

	// DryRuns are the policies in dry run, CountingForbidden those whose count_if counts responses of 403.
	DryRuns, CountingForbidden []string

	// ByClient says that its limits, or what is exempt, go by the client's address behind proxies.
	ByClient bool

	// Folded are headers in the keys of its policies whose letters count in one case.
	Folded []FoldedHeader

	// Guards are its policies that count failures or ban.
	Guards []Guard

	// Waiter is its policy whose requests wait for a place; nil: it has none.
	Waiter *Waiter

	// JSON is the handler's configuration.
	JSON string

	// Unnamed says that one of its policies has no name.
	Unnamed bool
}

// Warnable is a handler whose limits warnings are about.
type Warnable interface {
	// WarningSubject returns what warnings depend on of the handler, which is provisioned.
	WarningSubject() *Subject
}

// Warnings returns what the routes of servers can hardly mean, in the order of the routes, and what concerns several
// handlers at the end. No warning stands twice at a place: a site for HTTP and HTTPS, which is on two servers, is one.
func Warnings(servers map[string]*caddyhttp.Server) []Warning {
	found := new(findings)
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		for i, p := range partsOf(servers[name]) {
			f := &flow{found: found, filter: NewHeaderFilter(servers[name]), appends: appendingSource(servers[name])}
			f.front.unknown = i > 0 // what was in front of error routes and named routes is not known
			f.narrowed = i > 0
			w := walk{server: serverText(name, servers[name]), visitor: f}
			w.routes(p.routes, p.path, false, false)
			found.addEarly(f.early)
		}
	}
	found.addUnset()
	found.addUnnamed()
	return found.warnings
}

// findings are what was found on all servers.
type findings struct {
	warnings []Warning
	added    map[finding]bool

	unset   []finding // placeholders that nothing may set
	mapped  []string  // placeholders that map sets
	vars    []string  // names that vars sets
	foreign bool      // there is a handler of another author, which may set any placeholder
	unnamed []place

	orders []waitOrder // of waiters that requests meet one after the other, each once
}

// finding is a text about a place.
type finding struct {
	place place
	text  string
}

// add adds a warning, unless it stands at the same place of another server already.
func (f *findings) add(place place, text string) {
	once := finding{place, text}
	if place.Site { // which may stand on several servers, such as one for HTTP and HTTPS
		once.place.Server = ""
	}
	if f.added == nil {
		f.added = map[finding]bool{}
	}
	if !f.added[once] {
		f.added[once] = true
		f.warnings = append(f.warnings, Warning{Place: place.String(), Text: text})
	}
}

// identityHeaders are those by which well-known authenticating proxies name a user, in their canonical form.
var identityHeaders = []string{
	"Remote-User", "Remote-Email", "Remote-Name", "Remote-Groups",
	"X-Forwarded-User", "X-Forwarded-Email", "X-Forwarded-Preferred-Username",
	"X-Auth-Request-User", "X-Auth-Request-Email", "X-Auth-Request-Preferred-Username",
	"X-Authentik-Username", "X-Authentik-Email", "X-Authentik-Uid",
	"X-Webauth-User", "X-Webauth-Email", "Tailscale-User-Login",
	"Cf-Access-Authenticated-User-Email", "X-Goog-Authenticated-User-Email", "X-Ms-Client-Principal-Name",
}

// addEarly warns of limits that are decided by a header as the client wrote it, those that a later handler writes and
// those of well-known proxies, and of limits by a user who is not known yet.
func (f *findings) addEarly(reads []earlyRead) {
	const (
		order  = "; put both into a route, in the order in which they run"
		user   = "the limit reads {%s} before the authentication sets it, so that it is empty" + order
		later  = "the limit reads the header %s before forward_auth or request_header sets it, so that clients can forge it" + order
		unsure = "the limit reads the header %s before forward_auth or request_header sets it, " +
			"so that clients can forge it, unless a handler in front sets it too" + order
		never = "the limit reads the header %s, which nothing before it sets, so that clients can forge it; " +
			"have a proxy in front of Caddy set it, and let no client go around that proxy"
	)
	for i := range reads {
		r := &reads[i]
		switch {
		case r.user && r.later && !r.unsure:
			f.add(r.place, fmt.Sprintf(user, r.name))
		case r.user:
		case r.later && r.unsure:
			f.add(r.place, fmt.Sprintf(unsure, r.name))
		case r.later:
			f.add(r.place, fmt.Sprintf(later, r.name))
		case !r.unsure && slices.Contains(identityHeaders, r.name):
			f.add(r.place, fmt.Sprintf(never, r.name))
		}
	}
}

// note notes which placeholders a handler sets.
func (f *findings) note(handler caddyhttp.MiddlewareHandler) {
	switch handler := handler.(type) {
	case *caddymap.Handler:
		f.mapped = append(f.mapped, handler.Destinations...)
	case *caddyhttp.VarsMiddleware:
		f.vars = slices.AppendSeq(f.vars, maps.Keys(*handler))
	default:
		f.foreign = f.foreign || isForeign(handler)
	}
}

// meant returns what is meant by a placeholder that Caddy does not have: in a Caddyfile and in JSON; empty for any
// other name.
func meant(name string) (caddyfile, inJSON string) {
	if slices.Contains([]string{"user", "username", "user_id", "user.id"}, name) {
		return "{http.auth.user.id}", "{http.auth.user.id}"
	}
	for _, plural := range []string{"cookies.", "headers."} {
		if rest, found := strings.CutPrefix(name, plural); found {
			word := strings.TrimSuffix(plural, "s.") + "." + rest
			return "{" + word + "}", "{http.request." + word + "}"
		}
	}
	return rule.MeantOfBody(name)
}

// addUnset warns of placeholders with the names of other products that no handler sets.
func (f *findings) addUnset() {
	const never = "the limit reads {%s}, which nothing sets, so that it is always empty; write %s, or set it by map"
	for _, read := range f.unset {
		name := read.text
		if f.foreign || slices.Contains(f.mapped, name) {
			continue
		}
		caddyfile, inJSON := meant(name)
		switch {
		case slices.Contains(f.vars, name):
			caddyfile = "{vars." + name + "}, in JSON {http.vars." + name + "}"
		case caddyfile != inJSON:
			caddyfile += ", in JSON " + inJSON
		}
		f.add(read.place, fmt.Sprintf(never, name, caddyfile))
	}
}

// maxPlaces is how many places the warning about unnamed handlers names.
const maxPlaces = 10

// addUnnamed warns that several handlers without a name for their policy share one count: most who write two such
// lines mean two limits. One of several servers, such as those of a site block for HTTP and HTTPS, is one.
func (f *findings) addUnnamed() {
	servers := map[string]string{} // the first of each route
	var places []string
	for _, place := range f.unnamed {
		if first, found := servers[place.Route]; place.Site && found && first != place.Server {
			continue
		} else if place.Site {
			servers[place.Route] = place.Server
		}
		places = append(places, place.String())
	}
	if len(places) < 2 {
		return
	}
	f.warnings = append(f.warnings, Warning{
		Place: strings.Join(places[:min(maxPlaces, len(places))], "; "),
		Text: fmt.Sprintf("%d handlers without a name share the policy default, and so one count for each key; "+
			"write a name of its own for each limit, or name default where they are to share one", len(places)),
	})
}
