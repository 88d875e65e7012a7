package docs

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// swarm sends the requests of all addresses, each of an autonomous system, twenty at a time. It returns how many
// passed, and how long it took.
func (e recipeEnv) swarm(t *testing.T, system string, addresses []string) (passed int, took time.Duration) {
	t.Helper()
	begin := time.Now()
	var group sync.WaitGroup
	var admitted atomic.Int64
	for part := range slices.Chunk(addresses, (len(addresses)+19)/20) {
		group.Go(func() {
			for _, address := range part {
				a, err := e.Try(http.MethodGet, e.URL+"/", "", "X-Forwarded-For: "+address, "X-As: "+system)
				switch {
				case err != nil:
					t.Error(err)
				case a.Status == http.StatusOK:
					admitted.Add(1)
				default:
					caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
				}
			}
		})
	}
	group.Wait()
	return int(admitted.Load()), time.Since(begin)
}

// list makes a list of so many addresses.
func list(n int, address func(i int) string) (addresses []string) {
	for i := range n {
		addresses = append(addresses, address(i))
	}
	return addresses
}

func recipeLadder(t *testing.T, e recipeEnv) {
	for name, test := range map[string]struct {
		limit     int
		addresses []string
	}{
		"one address":      {60, list(80, func(int) string { return "198.16.1.1" })},
		"one IPv6 address": {60, list(80, func(int) string { return "2001:db8:16:1::1" })},
		"a /24":            {300, list(400, func(i int) string { return fmt.Sprint("198.17.1.", i%200) })},
		"a /64":            {300, list(400, func(i int) string { return fmt.Sprintf("2001:db8:17:1::%x", i) })},
		"a /16":            {1200, list(2000, func(i int) string { return fmt.Sprintf("198.18.%d.%d", i%200, i/200) })},
		"a /48":            {1200, list(2000, func(i int) string { return fmt.Sprintf("2001:db8:18:%x::%x", i%200, i) })},
		"a system":         {3000, list(4000, func(i int) string { return fmt.Sprintf("198.%d.%d.%d", 20+i%4, i/4%250, i%2000/1000) })},
	} {
		passed, took := e.swarm(t, name, test.addresses)
		if most := test.limit + int(took.Seconds()*float64(test.limit)/60) + 1; passed < test.limit || passed > most {
			t.Errorf("%s: %d requests of the swarm passed, want %d to %d", name, passed, test.limit, most)
		}
	}
	for i, network := range []string{"198.18.%d.%d", "2001:db8:18:%x::%x"} { // until no unit has flowed back
		a := caddytest.Response{Status: http.StatusOK}
		for n := 0; a.Status == http.StatusOK && n < 5000; n++ {
			a = e.Get(t, "/", "X-Forwarded-For: "+fmt.Sprintf(network, 201+n%50, n/50))
		}
		caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
		caddytest.CheckQuota(t, a, 1200, 0)
		if wait := retryAfter(t, a); wait != 1 {
			t.Errorf("bystander %d: got %v; want it to wait for a second", i, a)
		}
	}
	if a := e.Get(t, "/", "X-Forwarded-For: 198.19.1.1"); a.Status != http.StatusOK {
		t.Errorf("got %v; want other blocks to notice nothing", a)
	}
}

func recipeElsewhere(t *testing.T, e recipeEnv) {
	begin := time.Now()
	large, small := 0, 0
	for range 103 {
		switch a := e.Get(t, "/", "X-Api-Key: acme"); {
		case a.Status != http.StatusOK:
			t.Fatalf("got %v; want no request denied", a)
		case a.Body == "small":
			small++
		default:
			large++
		}
	}
	if most := 100 + int(time.Since(begin).Seconds()*100/60) + 1; large < 100 || large > most || len(e.backend.seen()) != large {
		t.Errorf("%d requests went to the large model, which saw %d; want 100 to %d", large, len(e.backend.seen()), most)
	}
	for labels, want := range map[string]int{`allowed",policy="all`: 103, `dry_run_allowed",policy="large`: large, `dry_run_denied",policy="large`: small} {
		counted := 0.0
		for _, source := range []string{"memory", "redis", "deny_cache"} {
			counted += e.Metric(t, `decisions_total{decision="`+labels+`",source="`+source+`"}`)
		}
		if counted != float64(want) {
			t.Errorf("%s is counted %v times, want %d", labels, counted, want)
		}
	}
	e.spend(t, 897, 1000*minutely, "/", "X-Api-Key: acme")
	if a := e.Get(t, "/", "X-Api-Key: bolt"); a.Status != http.StatusOK || a.Body == "small" {
		t.Errorf("got %v; want another customer at the large model", a)
	}
	if a := e.Get(t, "/"); a.Status != http.StatusBadRequest {
		t.Errorf("got %v; want 400 without a key", a)
	}
}
