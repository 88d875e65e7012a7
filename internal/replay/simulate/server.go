package simulate

import (
	"cmp"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
)

// simServer is one server of the configuration.
type simServer struct {
	server *caddyhttp.Server
	tree   *routetrace.Tree
	tls    bool // at a port that is for nothing else
	trust  *proxyTrust
	filter routetrace.HeaderFilter

	// Preparing a request takes a third of a line's time. One prepared request serves for all where
	// nothing that the server runs changes it for good or reads what it was at first.
	repeatable bool
	prepared   *http.Request

	mayAnswer bool // a handler that was left out may be what answers requests

	trusted bool // the peer of the request that is played
}

// newServer provisions a server's reduced routes.
func newServer(ctx caddy.Context, raw *reducedServer, schemes schemePorts) (*simServer, error) {
	server := &caddyhttp.Server{
		Listen: raw.Listen, NamedRoutes: raw.NamedRoutes, Routes: raw.Routes,
		ExpectedUnderscoreHeaders: raw.ExpectedUnderscoreHeaders, ExpectedDotHeaders: raw.ExpectedDotHeaders,
	}
	if err := server.Routes.Provision(ctx); err != nil {
		return nil, err
	}
	for _, route := range server.NamedRoutes {
		if err := route.Provision(ctx, nil); err != nil {
			return nil, err
		}
	}
	trust, err := newProxyTrust(ctx, &raw.proxyConfig)
	if err != nil {
		return nil, err
	}
	return &simServer{
		trust: trust, filter: routetrace.NewHeaderFilter(server), server: server, tree: routetrace.NewTree(server),
		tls: len(raw.TLS) > 0 || routetrace.Listens(server, schemes.https), repeatable: raw.repeatable,
		mayAnswer: raw.mayAnswer,
	}, nil
}

// schemePorts are the ports of requests whose URL names none.
type schemePorts struct{ http, https string }

// splitHost divides what a request names as its host.
func splitHost(text string) (name, port string) {
	at := strings.LastIndexByte(text, ':')
	if at < 0 || strings.HasSuffix(text, "]") {
		return text, ""
	}
	return text[:at], text[at+1:]
}

// serversOf are the servers of which one may have got a request. The port that its host names decides;
// without one that of its scheme does. Logs that tell neither, or ports that no server has because
// something in front of Caddy translates them, leave all servers with limits, of which the first counts
// where the request meets a policy.
func (s *Simulation) serversOf(e *accesslog.Entry, host string) []*simServer {
	_, port := splitHost(host)
	switch {
	case port != "":
	case e.TLS:
		port = s.schemes.https
	case e.HasScheme():
		port = s.schemes.http
	}
	if known := s.ports[port]; len(known) > 0 {
		return known
	}
	return s.limited
}

// request makes the request of an entry; nil where no server would understand it.
func (s *simServer) request(e *accesslog.Entry, host string) *http.Request {
	target, err := url.ParseRequestURI(e.URI)
	if err != nil || !isMethod(e.Method) {
		return nil
	}
	r := s.prepared
	if r == nil {
		r = routetrace.Prepare(&http.Request{URL: target, Body: http.NoBody}, s.server, "")
		if s.repeatable {
			s.prepared = r
		}
	}
	s.fill(r, target, e, host)
	return r
}

// isMethod reports whether a text is a method by RFC 9110.
func isMethod(text string) bool {
	return text != "" && strings.IndexFunc(text, func(c rune) bool {
		isLetter, isDigit := c|0x20 >= 'a' && c|0x20 <= 'z', c >= '0' && c <= '9'
		return !isLetter && !isDigit && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	}) < 0
}

// fill makes a prepared request that of an entry.
func (s *simServer) fill(r *http.Request, target *url.URL, e *accesslog.Entry, host string) {
	r.Method, r.URL, r.RequestURI, r.Host = e.Method, target, e.URI, host // the log does not tell the peer's port
	r.Header, r.Proto, r.RemoteAddr = s.filter.Filter(e.Header), e.Proto, net.JoinHostPort(cmp.Or(e.Remote, e.Client), "0")
	if r.Header == nil {
		r.Header = http.Header{}
	}
	e.Client, s.trusted = s.trust.client(e)
	var ok bool
	if r.ProtoMajor, r.ProtoMinor, ok = http.ParseHTTPVersion(e.Proto); !ok {
		r.ProtoMajor, r.ProtoMinor = 1, 1
	}
	r.TLS = nil
	if s.tls || e.TLS {
		name, _ := splitHost(host)
		r.TLS = routetrace.SyntheticTLS(name)
	}
	ctx := r.Context()
	if vars, ok := ctx.Value(caddyhttp.VarsCtxKey).(map[string]any); ok {
		begun := vars[beginVar]
		clear(vars)
		vars[caddyhttp.ClientIPVarKey], vars[caddyhttp.TrustedProxyVarKey], vars[beginVar] = e.Client, s.trusted, begun
	}
	if repl, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		repl.Set(userPrefix+"id", e.User)
	}
}

const (
	// beginVar is when a request began, without which Caddy has no {http.request.duration}.
	beginVar = "start_time"

	// userPrefix begins the placeholders of who was authenticated, of which a log tells the id.
	userPrefix = "http.auth.user."
)
