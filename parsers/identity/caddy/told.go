package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

func init() {
	caddy.RegisterModule(&handler{})
	httpcaddyfile.RegisterHandlerDirective("identity_told", func(httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		return &handler{}, nil
	})
}

// handler answers what becomes of a request under policies whose keys have one placeholder each, with on_empty_key skip, and
// under policies with a matcher of one path.
type handler struct{ rules *rule.Set }

// CaddyModule returns the module.
func (*handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.identity_told", New: func() caddy.Module { return &handler{} }}
}

// keys are the placeholders of the policies.
var keys = []string{
	"http.request.header.Authorization", "http.request.header.X-Api-Key", "http.request.cookie.session", "http.request.uri.query.token",
	"http.request.uri.path", "http.request.host", "http.request.hostport", "http.redis_ratelimit.credential",
	"http.redis_ratelimit.credential.user",
}

// paths are those of the matchers.
var paths = []string{"/login", "/api/items", "/login.php"}

// Provision makes the policies.
func (h *handler) Provision(caddy.Context) error {
	var rules []rule.Rule
	add := func(told, key string, match caddyhttp.MatcherSets) error {
		r, err := newRule(len(rules), key)
		if err != nil {
			return err
		}
		r.Texts.Key, r.Match = told, match
		rules = append(rules, r)
		return nil
	}
	for _, placeholder := range keys {
		text := "{" + placeholder + "}"
		if err := add(rule.ShortNames(text), text, nil); err != nil {
			return err
		}
	}
	for _, path := range paths {
		if err := add("path "+path, "everyone", caddyhttp.MatcherSets{{&caddyhttp.MatchPath{path}}}); err != nil {
			return err
		}
	}
	h.rules = rule.NewSet(rules)
	return nil
}

// newRule returns a rule of a policy for failures, whose matchers also meet paths with extensions.
func newRule(number int, key string) (r rule.Rule, err error) {
	policy := limiter.Settings{Name: "p" + strconv.Itoa(number), Algorithm: limiter.FixedWindow, Limit: 1, Window: time.Hour}
	if r.Policy, err = limiter.NewPolicy(policy); err != nil {
		return r, err
	}
	if r.Key, err = rule.ParseKey(key, rule.Prefixes{IPv4: 32, IPv6: 128}); err != nil {
		return r, err
	}
	r.OnEmptyKey, r.Numbers.Weight = rule.EmptyKeySkip, 1
	r.CountIf = &caddyhttp.ResponseMatcher{StatusCode: []int{http.StatusUnauthorized}}
	return r, nil
}

// told is what becomes of a request under a policy. The policy counts the request by a key, leaves the request out, or
// does neither, for a reason.
type told struct {
	Key    string `json:"key,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// similarName is the reason of a request that counts by its address, since only a name like the one of the key is there.
const similarName = "similar_name"

// ServeHTTP answers with an object of policies.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return errors.New("the request has no replacer")
	}
	answer := map[string]told{}
	_ = h.rules.Evaluate(r, repl, &rule.Evaluation{OnFinding: func(f rule.Finding) { // which has the error too
		switch name := f.Rule.Texts.Key; {
		case f.Err != nil:
			answer[name] = told{Reason: rule.RefusalLabel(f.Err)}
		case f.Status != rule.Counts:
			answer[name] = told{}
		case rule.IsAddressKey(f.Key):
			answer[name] = told{Reason: similarName}
		default:
			answer[name] = told{Key: strings.ToValidUTF8(f.Key.String(), "\ufffd")}
		}
	}})
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(answer)
}

// Interface guard.
var _ caddy.Provisioner = (*handler)(nil)
