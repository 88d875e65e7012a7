package rule

import (
	"crypto/tls"
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestSet_Evaluate_empty_keys has policies in one decision that each do something else about an empty key.
func TestSet_Evaluate_empty_keys(t *testing.T) {
	rules := manyRules(t, 4, 0)[:3]
	for i, mode := range EmptyKeys() {
		key, err := ParseKey("{http.request.header.X-"+string(mode)+"}", Prefixes{IPv4: 16 + 8*i, IPv6: 64})
		redistest.Must(t, err)
		rules[i].Key, rules[i].OnEmptyKey = key, mode
	}
	const stand = addressMark + "192.0.0.0/16"
	for name, test := range map[string]struct {
		header  http.Header
		early   bool
		refused int
		keys    []string
	}{
		"all":              {http.Header{"X-Client_ip": {"a"}, "X-Skip": {"b"}, "X-Reject": {"c"}}, false, 0, []string{"a", "b", "c"}},
		"all, early":       {http.Header{"X-Client_ip": {"a"}, "X-Skip": {"b"}, "X-Reject": {"c"}}, true, 0, []string{"a", "b", "c"}},
		"no first":         {http.Header{"X-Skip": {"b"}, "X-Reject": {"c"}}, false, 0, []string{stand, "b", "c"}},
		"no first, early":  {http.Header{"X-Skip": {"b"}, "X-Reject": {"c"}}, true, http.StatusTooEarly, nil},
		"two firsts":       {http.Header{"X-Client_ip": {"a", "b"}, "X-Reject": {"c"}}, false, 0, []string{stand, "c"}},
		"no second":        {http.Header{"X-Client_ip": {"a"}, "X-Reject": {"c"}}, false, 0, []string{"a", "c"}},
		"no second, early": {http.Header{"X-Client_ip": {"a"}, "X-Reject": {"c"}}, true, 0, []string{"a", "c"}},
		"two seconds":      {http.Header{"X-Client_ip": {"a"}, "X-Skip": {"b", "b"}, "X-Reject": {"c"}}, false, http.StatusBadRequest, nil},
		"no third":         {http.Header{"X-Client_ip": {"a"}, "X-Skip": {"b"}}, false, http.StatusBadRequest, nil},
		"no third, early":  {http.Header{"X-Client_ip": {"a"}, "X-Skip": {"b"}}, true, http.StatusBadRequest, nil},
		"two thirds":       {http.Header{"X-Client_ip": {"a"}, "X-Skip": {"b"}, "X-Reject": {"c", "c"}}, false, http.StatusBadRequest, nil},
		"none":             {nil, false, http.StatusBadRequest, nil},
		"none, early":      {nil, true, http.StatusTooEarly, nil},
	} {
		r, repl := keyRequest("192.0.2.1", nil)
		for name, values := range test.header {
			r.Header[name] = values
		}
		if test.early {
			r.TLS = new(tls.ConnectionState)
		}
		var e Evaluation
		refusal := caddyhttp.HandlerError{}
		if errors.As(NewSet(rules).Evaluate(r, repl, &e), &refusal); refusal.StatusCode != test.refused {
			t.Errorf("%s: refused with %d, want %d", name, refusal.StatusCode, test.refused)
		}
		var keys []string
		for i := range e.Enforced {
			keys = append(keys, e.Enforced[i].Key.String())
		}
		redistest.ErrorIf(t, !slices.Equal(keys, test.keys), "%s: counted for %q, want %q", name, keys, test.keys)
	}
}
