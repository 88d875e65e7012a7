package tryout

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/simulate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// given is what the requests have that are made.
type given struct {
	*Inputs
	requests []*request        // of the URLs
	values   map[string]string // by full names
	header   http.Header       // with the headers that values are given for
}

// newGiven reads the options. Its errors are about the options.
func newGiven(o *Inputs) (*given, error) {
	g := &given{Inputs: o, values: map[string]string{}, header: o.Header.Clone()}
	if g.header == nil {
		g.header = http.Header{}
	}
	for name, value := range o.Values {
		name = strings.Trim(name, "{}")
		field, isHeader := strings.CutPrefix(name, "header.")
		switch {
		case isHeader:
			g.header.Set(field, value)
		case strings.HasPrefix(name, "user."):
			g.values["http.auth."+name] = value
		case strings.HasPrefix(name, "vars."):
			g.values["http."+name] = value
		default:
			g.values[name] = value
		}
	}
	for _, text := range o.URLs {
		target, err := url.Parse(text)
		if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
			return nil, fmt.Errorf("--url %q: begin it with http:// or https://, as in https://example.com/search?q=x", text)
		}
		r := &request{
			method: o.Method, tls: target.Scheme == "https", host: target.Host, target: target.RequestURI(), header: g.header.Clone(),
			client: madeAddresses[firstClient],
		}
		g.requests = append(g.requests, r)
	}
	return g, nil
}

// candidates returns requests that may meet the policy of a place, the likeliest ones first.
func (g *given) candidates(p *simulate.Place) (all []*request, unknown []string) {
	values := keyValues(p.Rule)
	body, contentType := g.Body, "application/x-www-form-urlencoded"
	if body == nil {
		body, contentType = bodyFor(values, p.Rule.BodyOptions(), firstClient)
	}
	asked := wishes(p)
	for _, r := range g.requests {
		for i := range asked {
			one := r.clone()
			one.addMissing(&asked[i])
			all = append(all, one)
		}
	}
	for i := range asked {
		w := &asked[i]
		unknown = append(unknown, w.unknown...)
		all = append(all, g.madeFor(p, w))
	}
	for _, r := range all {
		r.body = body
		if body != nil && r.header.Get("Content-Type") == "" {
			r.header.Set("Content-Type", contentType)
		}
		if host := r.header.Get("Host"); host != "" {
			r.host = host
			r.header.Del("Host")
		}
		for _, v := range values {
			v.give(r, firstClient)
		}
	}
	slices.Sort(unknown)
	return withMethods(all), slices.Compact(unknown)
}

// withMethods returns requests each with the method that it has; one without is tried with the two that are usual.
func withMethods(all []*request) (both []*request) {
	for _, r := range all {
		if r.method != "" {
			both = append(both, r)
			continue
		}
		methods := []string{http.MethodGet, http.MethodPost}
		if r.body != nil {
			slices.Reverse(methods)
		}
		for _, method := range methods {
			one := r.clone()
			one.method = method
			both = append(both, one)
		}
	}
	return both
}

// madeFor returns a request that is made up for what matchers ask for.
func (g *given) madeFor(p *simulate.Place, w *wish) *request {
	r := &request{method: g.Method, tls: p.Server.TLS || w.tls, host: w.host, header: g.header.Clone(), client: madeAddresses[firstClient]}
	if r.host == "" {
		r.host = "example.com"
	}
	if p.Server.Port != "" && !strings.Contains(r.host, ":") {
		r.host += ":" + p.Server.Port
	}
	r.target = (&url.URL{Path: w.path}).EscapedPath()
	if r.target == "" {
		r.target = "/"
	}
	if len(w.query) > 0 {
		r.target += "?" + w.query.Encode()
	}
	r.addMissing(w)
	return r
}

// addMissing adds what matchers ask for to a request that has it not.
func (r *request) addMissing(w *wish) {
	if r.method == "" {
		r.method = w.method
	}
	for name, values := range w.header {
		if r.header.Get(name) == "" {
			r.header[http.CanonicalHeaderKey(name)] = values
		}
	}
	r.pattern, r.behind = w.pattern, w.behind
	if _, err := netip.ParseAddr(w.client); err == nil {
		r.client = w.client
	}
}

// unset returns the placeholders of a key that requests are not made with, and that nothing is given for.
func (g *given) unset(r *rule.Rule) (names []string) {
	for i, v := range keyValues(r) {
		if full := r.Key.Placeholders()[i]; !v.isMade() && g.values[full] == "" {
			names = append(names, v.text())
		}
	}
	return names
}
