package routetrace

import (
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

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

	// Places are its policies with max_concurrent.
	Places []PlacePolicy

	// JSON is the handler's configuration.
	JSON string

	// Unnamed says that one of its policies has no name.
	Unnamed bool
}

// Guard is a policy that counts failures by count_if, or that bans.
type Guard struct {
	Policy string

	// CountsFailures says that the policy has count_if, CountsUnauthorized that responses of 401 count by it.
	CountsFailures, CountsUnauthorized bool

	Match caddyhttp.MatcherSets // its own; empty: all requests
}

// Waiter is a policy at a handler whose requests wait for a place, and keep it until they end. Key is the template of its
// keys: policies share places by name and key.
type Waiter struct {
	Policy, Key string
	Match       caddyhttp.MatcherSets // its own; empty: all requests
}

// PlacePolicy is a policy with max_concurrent at a handler.
type PlacePolicy struct {
	Policy  string
	Keyless bool                  // its key is left out, so that places are those of an address
	Shared  bool                  // all requests share its places
	By      string                // what turns go round by; empty: nothing does
	Match   caddyhttp.MatcherSets // its own; empty: all requests
}

// sharesPlaces reports whether requests of both wait for the same places, where their keys are the same.
func (w *Waiter) sharesPlaces(other *Waiter) bool {
	return w.Policy == other.Policy && w.Key == other.Key
}

// FoldedHeader is a header whose letters count in one case in the keys of a policy.
type FoldedHeader struct{ Policy, Name string }

// Warnable is a handler whose limits warnings are about.
type Warnable interface {
	// WarningSubject returns what warnings depend on of the handler, which is provisioned.
	WarningSubject() *Subject
}

// findings are what was found on all servers.
type findings struct {
	warnings []Warning
	added    map[finding]bool

	reads   []finding // placeholders of limits, without those of the authenticated user
	mapped  []string  // placeholders that map sets
	vars    []string  // names that vars sets
	foreign bool      // there is a handler of another author, which may set any placeholder
	unnamed []place

	orders []waitOrder // of waiters that requests meet one after the other, each once
}

// waitOrder is that requests with a place of the first policy wait for a place of the second.
type waitOrder struct {
	first, second Waiter
	place         place // of the second
}

// earlyRead is what a limit goes by before any handler has certainly written it: a header of requests, or a
// placeholder of the authenticated user.
type earlyRead struct {
	place place
	name  string // of a header, in its canonical form, or of a placeholder
	user  bool   // it is a placeholder of the authenticated user

	unsure bool // a handler in front may have written it: its configuration does not tell
	later  bool // a handler behind the place writes it
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

// addOrder notes an order of two waiters, once, and warns if the other order is there too.
func (f *findings) addOrder(o waitOrder) {
	isSame := func(other waitOrder) bool {
		return other.first.sharesPlaces(&o.first) && other.second.sharesPlaces(&o.second)
	}
	isReverse := func(other waitOrder) bool {
		return other.first.sharesPlaces(&o.second) && other.second.sharesPlaces(&o.first)
	}
	if slices.ContainsFunc(f.orders, isSame) {
		return
	}
	f.orders = append(f.orders, o)
	if i := slices.IndexFunc(f.orders, isReverse); i >= 0 {
		f.warnings = append(f.warnings, Warning{
			Place: f.orders[i].place.String() + "; " + o.place.String(),
			Text: fmt.Sprintf("policies %q and %q: requests have a place of the one and wait for the other, in both orders, so that they "+
				"wait for each other; have requests meet them in one order everywhere", o.second.Policy, o.first.Policy),
		})
	}
}

// appendingSources are CDNs that append to the X-Forwarded-For of clients, by the source of trusted proxies that has their
// addresses, with the header that clients cannot write.
var appendingSources = map[string]string{
	"cloudflare": "CF-Connecting-IP", // developers.cloudflare.com/fundamentals/reference/http-headers
}

// appendingSource returns what is wrong with the trusted proxies of a server whose first address in X-Forwarded-For counts, if
// they are a CDN that appends to it; empty: nothing.
func appendingSource(server *caddyhttp.Server) string {
	source := strings.TrimPrefix(rule.TrustedSource(server), "http.ip_sources.")
	header := appendingSources[source]
	first := "X-Forwarded-For"
	if len(server.ClientIPHeaders) > 0 {
		first = server.ClientIPHeaders[0]
	}
	if header == "" || server.TrustedProxiesStrict > 0 || !strings.EqualFold(first, "X-Forwarded-For") {
		return ""
	}
	return fmt.Sprintf("trusted_proxies %s: X-Forwarded-For begins with what clients write, and counts; "+
		"write client_ip_headers %s, or trusted_proxies_strict, in the global option servers", source, header)
}
