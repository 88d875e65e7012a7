package docs

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// This file tests the recipes of bans and overrides, with the commands of the page.

// recipeCommand finds the commands of docs/recipes.md.
var recipeCommand = regexp.MustCompile(`(?m)^\$ caddy redis-ratelimit (.+)$`)

// operate runs the command of a recipe that has a text, on the client of the test in place of the page's.
func (e recipeEnv) operate(t *testing.T, heading, text string) (output string) {
	t.Helper()
	_, section, _ := strings.Cut(readRecipesText(t), "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, found := range recipeCommand.FindAllStringSubmatch(section, -1) {
		args := shellWords(strings.ReplaceAll(found[1], "203.0.113.7", "127.0.0.1"))
		if !strings.Contains(found[1], text) {
			continue
		}
		ending := e.Ratelimit(t, args...)
		ending.Want(t, 0)
		return ending.Stdout
	}
	t.Fatalf("the recipe %q has no command %s", heading, text)
	return ""
}

func recipeBan(t *testing.T, e recipeEnv) {
	const heading = "Log-in protection"
	for range 5 {
		e.logInAs(t, "carol@example.com", "guess").Want(t, http.StatusUnauthorized, caddytest.Any) // a wrong password refused by the backend
	}
	refusal := e.logInAs(t, "carol@example.com", "right")
	caddytest.CheckRefusal(t, refusal, http.StatusTooManyRequests)
	wait := retryAfter(t, refusal)
	assert.ErrorIf(t, wait < 890 || wait > 900, "got %v; want the client locked out for 15 minutes", refusal)
	output := strings.Fields(e.operate(t, heading, "bans"))
	assert.ErrorIf(t, !slices.Contains(output, "127.0.0.1"), "got %q; want the client banned", output)
	e.operate(t, heading, "reset")
	e.logInAs(t, "carol@example.com", "right").Want(t, http.StatusOK, caddytest.Any) // the client let in
}

func recipeBlock(t *testing.T, e recipeEnv) {
	_, refusal := e.spend(t, 300, 300*minutely, "/")
	caddytest.CheckQuota(t, refusal, 300, 0)
	output := e.operate(t, "Block a client now", "--limit")
	assert.ErrorIf(t, !strings.Contains(output, "limit 5000") || !strings.Contains(output, "import, ticket 4711"), "got %s", output)
	left := remaining(t, e.Get(t, "/").Want(t, http.StatusOK, caddytest.Any), 5000)
	assert.ErrorIf(t, left < 4670 || left > 4850, "%d are left; want the 300 used units counted", left) // more than 4699 where a minute begins
	e.operate(t, "Block a client now", "--block")
	a := e.Get(t, "/")
	caddytest.CheckRefusal(t, a, http.StatusForbidden)
	wait := retryAfter(t, a)
	assert.ErrorIf(t, wait < 7190 || wait > 7200 || a.Body != "Blocked. Write to abuse@example.com.", "got %v; want the client blocked for two hours", a)
	e.Ratelimit(t, "override", "--policy", "site", "--key", "127.0.0.1", "--remove").Want(t, 0)
	a = e.Get(t, "/")
	assert.ErrorIf(t, a.Status == http.StatusForbidden || remaining(t, a, 300) > 200, "got %v; want the client's own limit again", a)
}

// recipeRollout sends requests of one client, which is not in the first tenth, and asks about others.
func recipeRollout(t *testing.T, e recipeEnv) {
	for range 70 {
		e.Get(t, "/").WantFree(t)
	}
	text := e.Send(t, http.MethodGet, e.Admin+"/metrics", "").Body
	assert.ErrorIf(t, !strings.Contains(text, `decisions_total{decision="dry_run_denied",policy="candidate"`), "the metrics have no dry_run_denied")
	e.Ratelimit(t, "state", "--policy", "candidate", "--key", "127.0.0.1").Want(t, 0, "no handler limits this key")
	limited := 0
	for i := range 100 {
		if p := e.ExplainFor(t, "/", "", fmt.Sprint("192.0.2.", i)).Policies; len(p) == 1 && !p[0].DryRun {
			limited++
		}
	}
	assert.ErrorIf(t, limited < 2 || limited > 25, "%d clients of a hundred are limited, want about ten", limited)
}

func recipeMonth(t *testing.T, e recipeEnv) {
	const acme = "X-Api-Key: acme"
	e.Get(t, "/v1/search", acme)
	e.Get(t, "/v1/export", acme)
	for range 3 {
		a := e.Get(t, "/v1/budget", acme)
		for _, part := range []string{`{"policies":[{"name":"minute","limit":60,"remaining":58,`, `{"name":"budget","limit":10000,"remaining":9899,`, `"retry_after":0,"window":"month"}]}`} {
			assert.ErrorIf(t, !strings.Contains(a.Body, part), "got %v; want %s", a, part)
		}
		assert.ErrorIf(t, a.Header.Get("Cache-Control") != "no-store", "got %v; want it not stored", a)
	}
	e.Get(t, "/v1/budget").Want(t, http.StatusBadRequest, caddytest.Any) // a key is required
	e.Override(t, http.StatusOK, `{"policy":"minute","key":"acme","limit":600}`)
	assert.Retry(t, "80 exports pass", func() (again bool, seen any) {
		a := e.Get(t, "/v1/export", acme)
		assert.FatalIf(t, a.Status != http.StatusOK && a.Status != http.StatusTooManyRequests, "got %v", a)
		left := e.Remaining(t, "budget", "acme")
		return left > 2000, left
	})
	m := e.inbox.WaitFor(t, "redis_ratelimit.threshold", 1)[0]
	assert.ErrorIf(t, m.Data["policy"] != "budget" || m.Data["threshold"] != 80.0 || m.Data["key_hash"] != caddytest.HashInboxKey(t, "acme"), "got %s", m.Body)
	e.Get(t, "/v1/budget", "X-Api-Key: bolt").Want(t, 0, `*"remaining":60,"reset_after":0,*`)
}

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
		"a /16":            {1200, list(1500, func(i int) string { return fmt.Sprintf("198.18.%d.%d", i%200, i/200) })},
		"a /48":            {1200, list(1500, func(i int) string { return fmt.Sprintf("2001:db8:18:%x::%x", i%200, i) })},
		"a system":         {3000, list(3500, func(i int) string { return fmt.Sprintf("198.%d.%d.%d", 20+i%4, i/4%250, i%2000/1000) })},
	} {
		passed, took := e.swarm(t, name, test.addresses)
		most := test.limit + int(took.Seconds()*float64(test.limit)/60) + 1
		assert.ErrorIf(t, passed < test.limit || passed > most, "%s: %d requests of the swarm passed, want %d to %d", name, passed, test.limit, most)
	}
	for i, network := range []string{"198.18.%d.%d", "2001:db8:18:%x::%x"} { // until no unit has flowed back
		a := caddytest.Response{Status: http.StatusOK}
		for n := 0; a.Status == http.StatusOK && n < 5000; n++ {
			a = e.Get(t, "/", "X-Forwarded-For: "+fmt.Sprintf(network, 201+n%50, n/50))
		}
		caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
		caddytest.CheckQuota(t, a, 1200, 0)
		wait := retryAfter(t, a)
		assert.ErrorIf(t, wait != 1, "bystander %d: got %v; want it to wait for a second", i, a)
	}
	e.Get(t, "/", "X-Forwarded-For: 198.19.1.1").Want(t, http.StatusOK, caddytest.Any) // other blocks notice nothing
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
	most := 100 + int(time.Since(begin).Seconds()*100/60) + 1
	assert.ErrorIf(t, large < 100 || large > most || len(e.backend.seen()) != large, "%d requests went to the large model, which saw %d; want 100 to %d", large, len(e.backend.seen()), most)
	for labels, want := range map[string]int{`allowed",policy="all`: 103, `dry_run_allowed",policy="large`: large, `dry_run_denied",policy="large`: small} {
		counted := 0.0
		for _, source := range []string{"memory", "redis", "deny_cache"} {
			counted += e.Metric(t, `decisions_total{decision="`+labels+`",source="`+source+`"}`)
		}
		assert.ErrorIf(t, counted != float64(want), "%s is counted %v times, want %d", labels, counted, want)
	}
	e.spend(t, 897, 1000*minutely, "/", "X-Api-Key: acme")
	e.Get(t, "/", "X-Api-Key: bolt").Want(t, http.StatusOK, "") // another customer at the large model
	e.Get(t, "/").Want(t, http.StatusBadRequest, caddytest.Any) // 400 without a key
}
