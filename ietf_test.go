package redisratelimit

import (
	"net/http"
	"slices"
	"testing"

	"github.com/dunglas/httpsfv"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
)

// checkOnlyItem checks that the headers have one item, of so many units that remain.
func checkOnlyItem(t *testing.T, header http.Header, remaining int64) {
	t.Helper()
	if got := header.Values(quotaheader.Policy); !slices.Equal(got, []string{`"same";q=10;w=86400`}) {
		t.Errorf("%s is %q", quotaheader.Policy, got)
	}
	list, err := httpsfv.UnmarshalList(header.Values(quotaheader.Quota))
	if err != nil || len(list) != 1 {
		t.Fatalf("%s is %q, error %v; want one item", quotaheader.Quota, header.Values(quotaheader.Quota), err)
	}
	item, _ := list[0].(httpsfv.Item)
	if got, _ := item.Params.Get("r"); got != remaining {
		t.Errorf("%s is %q, want %d to remain", quotaheader.Quota, header.Values(quotaheader.Quota), remaining)
	}
}

// TestPolicies_have_one_item_each_however_often_they_are_met takes twice from one share, and from two
// shares of one policy.
func TestPolicies_have_one_item_each_however_often_they_are_met(t *testing.T) {
	policy := func(more string) string {
		return `{"name":"same","limit":10,"window":"24h"` + more + `}`
	}
	for name, test := range map[string]struct {
		handlers  []string
		remaining int64
	}{
		"one share":                 {[]string{policy(`,"key":"a"`), policy(`,"key":"a"`)}, 8},
		"two shares":                {[]string{policy(`,"key":"a","weight":3`), policy(`,"key":"b"`)}, 7},
		"two shares of one handler": {[]string{policy(`,"key":"a"`) + "," + policy(`,"key":"b","weight":2`)}, 8},
	} {
		t.Run(name, func(t *testing.T) {
			var handlers []*Handler
			for _, policies := range test.handlers {
				handlers = append(handlers, newHandler(t, `{"policies":[`+policies+`],"headers":["ietf"]}`))
			}
			checkOnlyItem(t, fetch(t, serve(t, hello, handlers...).URL).Header, test.remaining)
		})
	}
}
