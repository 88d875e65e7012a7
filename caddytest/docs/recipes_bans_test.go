package docs

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// This file tests the recipes of bans and overrides, with the commands of the page.

// recipeCommand finds the commands of docs/recipes.md.
var recipeCommand = regexp.MustCompile(`(?m)^\$ caddy redis-ratelimit (.+)$`)

// operate runs a command of a recipe on the client of the test, in place of the page's.
func (e recipeEnv) operate(t *testing.T, heading, name string) (output string) {
	t.Helper()
	_, section, _ := strings.Cut(readRecipesText(t), "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, found := range recipeCommand.FindAllStringSubmatch(section, -1) {
		args := shellWords(strings.ReplaceAll(found[1], "203.0.113.7", "127.0.0.1"))
		if args[0] != name {
			continue
		}
		output, code := e.Operate(t, args...)
		if code != 0 {
			t.Errorf("%q: exit code %d\n%s", args, code, output)
		}
		return output
	}
	t.Fatalf("the recipe %q has no command %s", heading, name)
	return ""
}

func recipeBan(t *testing.T, e recipeEnv) {
	const heading = "Banning password guessers"
	logIn := func(password string) caddytest.Response {
		return e.Send(t, http.MethodPost, e.URL+"/login", "password="+password, "Content-Type: application/x-www-form-urlencoded")
	}
	for range 5 {
		if a := logIn("guess"); a.Status != http.StatusUnauthorized {
			t.Errorf("got %v; want a wrong password refused by the backend", a)
		}
	}
	refusal := logIn("right")
	caddytest.CheckRefusal(t, refusal, http.StatusTooManyRequests)
	if wait := retryAfter(t, refusal); wait < 890 || wait > 900 {
		t.Errorf("got %v; want the client locked out for 15 minutes", refusal)
	}
	if output := strings.Fields(e.operate(t, heading, "bans")); !slices.Contains(output, "127.0.0.1") {
		t.Errorf("got %q; want the client banned", output)
	}
	e.operate(t, heading, "reset")
	if a := logIn("right"); a.Status != http.StatusOK {
		t.Errorf("got %v; want the client let in", a)
	}
}

func recipeLift(t *testing.T, e recipeEnv) {
	_, refusal := e.spend(t, 100, 100*minutely, "/", "X-Api-Key: acme")
	caddytest.CheckQuota(t, refusal, 100, 0)
	if output := e.operate(t, "Lift one customer's limit tonight", "override"); !strings.Contains(output, "limit 5000") || !strings.Contains(output, "import, ticket 4711") {
		t.Errorf("got %s", output)
	}
	if a := e.Get(t, "/", "X-Api-Key: acme"); a.Status != http.StatusOK {
		t.Errorf("got %v; want the limit lifted", a)
	} else if left := remaining(t, a, 5000); left < 4890 || left > 4950 { // more than 4899 where a minute begins
		t.Errorf("got %v; want the 100 used units counted", a)
	}
	caddytest.CheckQuota(t, e.Get(t, "/", "X-Api-Key: bolt"), 100, 99)
}

func recipeBlock(t *testing.T, e recipeEnv) {
	caddytest.CheckQuota(t, e.Get(t, "/"), 300, 299)
	e.operate(t, "Block a client now", "override")
	a := e.Get(t, "/")
	caddytest.CheckRefusal(t, a, http.StatusForbidden)
	if wait := retryAfter(t, a); wait < 7190 || wait > 7200 || a.Body != "Blocked. Write to abuse@example.com." {
		t.Errorf("got %v; want the client blocked for two hours", a)
	}
	if _, code := e.Operate(t, "override", "--policy", "site", "--key", "127.0.0.1", "--remove"); code != 0 {
		t.Errorf("--remove: exit code %d", code)
	}
	if a := e.Get(t, "/"); a.Status != http.StatusOK || remaining(t, a, 300) < 298 {
		t.Errorf("got %v; want the client let in", a)
	}
}
