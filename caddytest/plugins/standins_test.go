package plugins

import (
	"bytes"
	"cmp"
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"
)

// The stand-ins have the names of plugins' modules and directives, and the places that the plugins, or the README files of
// the plugins, give to them.
func init() {
	caddy.RegisterModule(sharedCache{})
	caddy.RegisterModule(firewall{})
	caddy.RegisterModule(defender{})
	caddy.RegisterModule(bouncer{})
	caddy.RegisterModule(zones{})
	caddy.RegisterModule(numbers{})
	caddy.RegisterModule(tokens{})
	caddy.RegisterModule(fetchedRanges{})

	httpcaddyfile.RegisterHandlerDirective("cache", parse(func() caddyhttp.MiddlewareHandler { return new(sharedCache) }))
	httpcaddyfile.RegisterHandlerDirective("coraza_waf", parse(func() caddyhttp.MiddlewareHandler { return new(firewall) }))
	httpcaddyfile.RegisterHandlerDirective("defender", parse(func() caddyhttp.MiddlewareHandler { return new(defender) }))
	httpcaddyfile.RegisterHandlerDirective("crowdsec", parse(func() caddyhttp.MiddlewareHandler { return new(bouncer) }))
	httpcaddyfile.RegisterHandlerDirective("geo_ops", parse(func() caddyhttp.MiddlewareHandler {
		return &numbers{Placeholder: "geo.geolite2-asn.autonomous_system_number"}
	}))
	httpcaddyfile.RegisterHandlerDirective("geoip2_vars", parse(func() caddyhttp.MiddlewareHandler {
		return &numbers{Placeholder: "geoip2.autonomous_system_number", Unknown: "0"}
	}))
	httpcaddyfile.RegisterHandlerDirective("rate_limit", parse(func() caddyhttp.MiddlewareHandler { return new(zones) }))
	for _, name := range []string{"jwtauth", "authorize", "tailscale_auth"} {
		httpcaddyfile.RegisterHandlerDirective(name, parse(func() caddyhttp.MiddlewareHandler {
			return caddyauth.Authentication{ProvidersRaw: caddy.ModuleMap{"tokens": caddyconfig.JSON(tokens{}, nil)}}
		}))
	}
	httpcaddyfile.RegisterGlobalOption("cache", func(d *caddyfile.Dispenser, _ any) (any, error) {
		d.Next()
		return nil, nil
	})
	httpcaddyfile.RegisterDirectiveOrder("cache", httpcaddyfile.Before, "rewrite")
	httpcaddyfile.RegisterDirectiveOrder("defender", httpcaddyfile.After, "header")
	httpcaddyfile.RegisterDirectiveOrder("authorize", httpcaddyfile.Before, "basicauth")
	httpcaddyfile.RegisterDirectiveOrder("tailscale_auth", httpcaddyfile.Before, "basicauth")
	// Both limiters register a place before basic_auth. mholt's does so first, by the path of its module, and stands in front.
	httpcaddyfile.RegisterDirectiveOrder("rate_limit", httpcaddyfile.Before, "basicauth")
}

// parse returns a parser of a directive whose options do not matter.
func parse(handler func() caddyhttp.MiddlewareHandler) httpcaddyfile.UnmarshalHandlerFunc {
	return func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		h.Next()
		h.RemainingArgs()
		for nesting := h.Nesting(); h.NextBlock(nesting); {
			h.RemainingArgs()
		}
		return handler(), nil
	}
}

// sharedCache stands for cache-handler: it stores answers of 200 by the path, and requests of one path that come together
// share one answer, whatever that is.
type sharedCache struct{ answers *answers }

type answers struct {
	mu      sync.Mutex
	stored  map[string]*answer
	running map[string]*answer
}

type answer struct {
	status int
	header http.Header
	body   bytes.Buffer
	done   chan struct{}
	err    error
}

func (sharedCache) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.cache", New: func() caddy.Module { return new(sharedCache) }}
}

func (c *sharedCache) Provision(caddy.Context) error {
	c.answers = &answers{stored: map[string]*answer{}, running: map[string]*answer{}}
	return nil
}

func (c *sharedCache) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	key := r.URL.RequestURI()
	c.answers.mu.Lock()
	a, status := c.answers.stored[key], "Souin; hit"
	if a == nil {
		a, status = c.answers.running[key], "Souin; fwd=uri-miss; collapsed"
	}
	if a != nil {
		c.answers.mu.Unlock()
		<-a.done
		return a.write(w, status)
	}
	a = &answer{done: make(chan struct{}), header: http.Header{}}
	c.answers.running[key] = a
	c.answers.mu.Unlock()
	recorder := caddyhttp.NewResponseRecorder(&collected{ResponseWriter: w, header: a.header}, &a.body, func(int, http.Header) bool { return true })
	a.err = next.ServeHTTP(recorder, r)
	a.status = recorder.Status()
	c.answers.mu.Lock()
	delete(c.answers.running, key)
	if a.err == nil && a.status == http.StatusOK && a.header.Get("Cache-Control") != "no-store" {
		c.answers.stored[key] = a
	}
	c.answers.mu.Unlock()
	close(a.done)
	return a.write(w, "Souin; fwd=uri-miss; stored")
}

// collected keeps the header of an answer apart from the one that is sent.
type collected struct {
	http.ResponseWriter
	header http.Header
}

func (c *collected) Header() http.Header { return c.header }

func (a *answer) write(w http.ResponseWriter, status string) error {
	if a.err != nil {
		return a.err
	}
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.Header().Set("Cache-Status", status)
	w.WriteHeader(a.status)
	_, err := w.Write(a.body.Bytes())
	return err
}

// errBlocked is what refusing stand-ins return.
var errBlocked = errors.New("blocked")

// firewall stands for coraza, which refuses what looks like an attack.
type firewall struct{}

func (firewall) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.waf", New: func() caddy.Module { return new(firewall) }}
}

func (firewall) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if r.URL.Query().Has("attack") {
		return caddyhttp.Error(http.StatusForbidden, errBlocked)
	}
	return next.ServeHTTP(w, r)
}

// defender stands for caddy-defender, which answers clients in its ranges itself.
type defender struct{}

func (defender) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.defender", New: func() caddy.Module { return new(defender) }}
}

func (defender) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	switch r.Header.Get("X-Range") {
	case "blocked":
		w.WriteHeader(http.StatusForbidden)
		return nil
	case "limited":
		r.Header.Set("X-RateLimit-Apply", "true")
	}
	return next.ServeHTTP(w, r)
}

// bouncer stands for crowdsec's, which refuses the clients that its decisions name.
type bouncer struct{ defender }

func (bouncer) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.crowdsec", New: func() caddy.Module { return new(bouncer) }}
}

// numbers stands for modules that look autonomous systems up: it takes the number from a header.
type numbers struct {
	Placeholder string `json:"placeholder"`
	Unknown     string `json:"unknown,omitempty"` // for an address without a number
}

func (numbers) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.numbers", New: func() caddy.Module { return new(numbers) }}
}

func (n *numbers) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return errBlocked
	}
	repl.Set(n.Placeholder, cmp.Or(r.Header.Get("X-As"), n.Unknown))
	return next.ServeHTTP(w, r)
}

// zones stands for mholt's rate_limit: two requests pass.
type zones struct{ left *sync.Map }

func (zones) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.rate_limit", New: func() caddy.Module { return new(zones) }}
}

func (z *zones) Provision(caddy.Context) error {
	z.left = new(sync.Map)
	return nil
}

func (z *zones) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	for _, place := range []int{1, 2} {
		if _, taken := z.left.LoadOrStore(place, true); !taken {
			return next.ServeHTTP(w, r)
		}
	}
	w.Header().Set("Retry-After", strconv.Itoa(20))
	return caddyhttp.Error(http.StatusTooManyRequests, errBlocked)
}

// tokens stands for log-ins of plugins, which are providers of Caddy's authentication. A token is the user's name,
// but for a forged one.
type tokens struct{}

func (tokens) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.authentication.providers.tokens", New: func() caddy.Module { return new(tokens) }}
}

func (tokens) Authenticate(_ http.ResponseWriter, r *http.Request) (caddyauth.User, bool, error) {
	name := r.Header.Get("X-Token")
	return caddyauth.User{ID: name, Metadata: map[string]string{"tenant": name}}, name != "" && name != "forged", nil
}

// fetchedRanges stands for caddy-cloudflare-ip after its first fetch has failed.
type fetchedRanges struct{}

func (fetchedRanges) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.ip_sources.cloudflare", New: func() caddy.Module { return new(fetchedRanges) }}
}

func (*fetchedRanges) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	return nil
}

func (fetchedRanges) GetIPRanges(*http.Request) []netip.Prefix { return nil }

// Interface guards
var (
	_ caddyhttp.MiddlewareHandler = (*sharedCache)(nil)
	_ caddyhttp.MiddlewareHandler = (*firewall)(nil)
	_ caddyhttp.MiddlewareHandler = (*defender)(nil)
	_ caddyhttp.MiddlewareHandler = (*bouncer)(nil)
	_ caddyhttp.MiddlewareHandler = (*numbers)(nil)
	_ caddyhttp.MiddlewareHandler = (*zones)(nil)
	_ caddyauth.Authenticator     = (*tokens)(nil)
	_ caddyhttp.IPRangeSource     = (*fetchedRanges)(nil)
)
