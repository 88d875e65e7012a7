package caddytest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// kitchen is a Caddy that runs a recipe, with the backend that the recipe asks for.
type kitchen struct {
	*node
	backend *backend
}

const (
	recipeAddress = "\n:8080 {\n"
	recipeBackend = "127.0.0.1:9000"
	recipeRedis   = "\tredis_ratelimit {\n\t\tredis redis://127.0.0.1:6379\n\t}\n"
)

// cook runs a recipe as it stands, but for its addresses and the global options of the test.
func cook(t *testing.T, caddyfile, option string) kitchen {
	t.Helper()
	b := new(backend)
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	text := "\n" + caddyfile + "\n"
	if strings.Count(text, recipeAddress) != 1 {
		t.Fatalf("the recipe has no one site on :8080:\n%s", text)
	}
	text = strings.Replace(text, recipeAddress, "\n:{$PORT} {\n", 1)
	text = strings.ReplaceAll(text, recipeBackend, server.Listener.Addr().String())
	text = strings.Replace(text, recipeRedis, "", 1)
	options := "\tadmin {$ADMIN}\n\tauto_https off\n\tdefault_bind 127.0.0.1\n\tgrace_period 1s\n" + option + "\n"
	if own, found := strings.CutPrefix(text, "\n{\n"); found {
		return kitchen{start(t, "{\n"+options+own), b}
	}
	return kitchen{start(t, "{\n"+options+"}\n"+text), b}
}

// checkSource checks who decided: a test of Redis must not have gone by memory.
func (k kitchen) checkSource(t *testing.T, source string) {
	t.Helper()
	others := map[string][]string{"memory": {"redis", "deny_cache", "fallback"}, "redis": {"memory", "fallback"}}[source]
	text := k.send(t, http.MethodGet, k.Admin+"/metrics", "").body
	if !strings.Contains(text, `source="`+source+`"`) {
		t.Errorf("nothing was decided by %s", source)
	}
	for _, other := range others {
		if strings.Contains(text, `source="`+other+`"`) {
			t.Errorf("%s has decided something", other)
		}
	}
}

// spend asks until it is refused with 429, and returns how many requests passed and the refusal.
// As many as limit must pass, and no more than come back meanwhile, perSecond of them.
func (k kitchen) spend(t *testing.T, limit int, perSecond float64, path string, headers ...string) (passed int, refusal answer) {
	t.Helper()
	begin := time.Now()
	for {
		a := k.get(t, path, headers...)
		most := limit + int(perSecond*time.Since(begin).Seconds())
		if a.status == http.StatusOK {
			passed++
			if passed <= most {
				continue
			}
		}
		if checkRefusal(t, a, http.StatusTooManyRequests); passed < limit || passed > most {
			t.Fatalf("%s: %d requests passed, want %d to %d", path, passed, limit, most)
		}
		return passed, a
	}
}

// crowd sends so many requests at once, and returns the answers.
func (k kitchen) crowd(t *testing.T, path string, size int) []answer {
	t.Helper()
	answers := make([]answer, size)
	var group sync.WaitGroup
	for i := range answers {
		group.Go(func() {
			a, err := k.try(http.MethodGet, k.URL+path, "")
			if err != nil {
				t.Error(err)
			}
			answers[i] = a
		})
	}
	group.Wait()
	return answers
}

// backend serves what the recipes protect.
type backend struct {
	mu       sync.Mutex
	arrivals []time.Time
}

// ServeHTTP checks passwords at /login and says how many tokens it has used at /v1/.
func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	b.arrivals = append(b.arrivals, time.Now())
	b.mu.Unlock()
	if tokens, found := tokensOf[r.URL.Path]; found {
		w.Header().Set("X-Tokens-Used", tokens)
	}
	if r.Method == http.MethodPost && r.URL.Path == "/login" && r.FormValue("password") != "right" {
		w.WriteHeader(http.StatusUnauthorized)
	}
}

// tokensOf is what the backend says that a path has used.
var tokensOf = map[string]string{"/v1/chat": "4000", "/v1/free": "0"}

// seen are the times at which requests came.
func (b *backend) seen() []time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.arrivals
}
