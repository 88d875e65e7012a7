package redisratelimit

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

func TestQuotas_are_earned_in_whole_seconds(t *testing.T) {
	for _, test := range []struct {
		limit, burst int64
		window       time.Duration
		want         string
	}{
		{13, 0, time.Minute, "q=13;w=60"},
		{29, 0, time.Second, "q=29;w=1"},
		{7, 0, 999 * time.Millisecond, "q=7"},
		{3, 2, time.Second, "q=2"},
		{3, 4, time.Second, "q=4;w=1"},
		{10, 29, 7 * time.Second, "q=29;w=20"},
		{1, 3, 24 * time.Hour, "q=3;w=259200"},
		{49_999, 0, 24 * time.Hour, "q=49999;w=86400"},
		{1, 50_000, 24 * time.Hour, "q=50000;w=4320000000"},
	} {
		policy, err := limiter.NewPolicy(limiter.Settings{Name: "p", Algorithm: "gcra", Limit: test.limit, Burst: test.burst, Window: test.window})
		if err != nil {
			t.Fatal(err)
		}
		if got := quotaText(policy); got != `"p";`+test.want {
			t.Errorf("limit %d, burst %d, window %v: got %s, want %s", test.limit, test.burst, test.window, got, test.want)
		}
	}
}

// checkOnlyItem checks that the headers have one item, of so many units that remain.
func checkOnlyItem(t *testing.T, header http.Header, remaining int64) {
	t.Helper()
	if got := header.Values(headerIETFPolicy); !slices.Equal(got, []string{`"same";q=10;w=86400`}) {
		t.Errorf("%s is %q", headerIETFPolicy, got)
	}
	list, err := httpsfv.UnmarshalList(header.Values(headerIETF))
	if err != nil || len(list) != 1 {
		t.Fatalf("%s is %q, error %v; want one item", headerIETF, header.Values(headerIETF), err)
	}
	item, _ := list[0].(httpsfv.Item)
	if got, _ := item.Params.Get("r"); got != remaining {
		t.Errorf("%s is %q, want %d to remain", headerIETF, header.Values(headerIETF), remaining)
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
