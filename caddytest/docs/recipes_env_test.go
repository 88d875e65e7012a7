package docs

import (
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// recipeEnv is a Caddy that runs a recipe, with the backend of the recipe.
type recipeEnv struct {
	*caddytest.Node
	backend *backend
}

const (
	recipeAddress = "\n:8080 {\n"
	recipeBackend = "127.0.0.1:9000"
	recipeSmall   = "127.0.0.1:9001" // another backend, which answers "small"
	recipeSystem  = "{geo.geolite2-asn.autonomous_system_number}"
	recipeJWT     = "jwtauth {\n\t\t\tjwk_url https://id.example.com/.well-known/jwks.json\n\t\t\tuser_claims sub\n\t\t\tmeta_claims tenant\n\t\t}\n"
)

// recipeRedis is the global option of a recipe, in place of which a test has its own.
var recipeRedis = regexp.MustCompile(`\tredis_ratelimit \{\n\t\tredis redis://127\.0\.0\.1:6379\n(?:\t\thash_keys .*\n)?\t\}\n`)

// withoutJWT puts a header in place of a claim: the module that reads it is no part of this Caddy.
var withoutJWT = strings.NewReplacer(recipeJWT, "map {header.X-Tenant} {http.auth.user.tenant} {\n\t\t\t~(.+) ${1}\n\t\t}\n")

// runRecipe starts the Caddyfile of a recipe, with addresses and global options of the test.
func runRecipe(t *testing.T, caddyfile, option string) recipeEnv {
	t.Helper()
	b := &backend{}
	server := httptest.NewUnstartedServer(b)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	b.holder = caddytest.NewHolder(t) // which ends what runs before the server waits for it
	text := "\n" + caddyfile + "\n"
	redistest.FatalIf(t, strings.Count(text, recipeAddress) != 1, "the recipe has no one site on :8080:\n%s", text)
	text = strings.Replace(text, recipeAddress, "\n:{$PORT} {\n", 1)
	text = strings.ReplaceAll(text, recipeBackend, server.Listener.Addr().String())
	text = strings.ReplaceAll(text, recipeSmall, caddytest.Serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("small")) }))
	text = strings.ReplaceAll(text, recipeSystem, "{header.X-As}") // the module that has it is no part of this Caddy
	text = withoutJWT.Replace(recipeRedis.ReplaceAllString(text, ""))
	options := "\tadmin {$ADMIN}\n\tauto_https off\n\tdefault_bind 127.0.0.1\n\tgrace_period 1s\n" + option + "\n"
	if own, found := strings.CutPrefix(text, "\n{\n"); found {
		return recipeEnv{caddytest.Start(t, "{\n"+options+own), b}
	}
	return recipeEnv{caddytest.Start(t, "{\n"+options+"}\n"+text), b}
}

// checkSource checks the source of all decisions: a test on Redis must not be decided by memory.
func (e recipeEnv) checkSource(t *testing.T, source string) {
	t.Helper()
	others := map[string][]string{"memory": {"redis", "deny_cache", "fallback"}, "redis": {"memory", "fallback"}}[source]
	text := e.Send(t, http.MethodGet, e.Admin+"/metrics", "").Body
	redistest.ErrorIf(t, !strings.Contains(text, `source="`+source+`"`), "nothing was decided by %s", source)
	for _, other := range others {
		for line := range strings.Lines(text) {
			byZero := other == "memory" && strings.Contains(line, `decision="denied"`) // a limit of 0 needs no store
			redistest.ErrorIf(t, strings.Contains(line, `source="`+other+`"`) && !byZero, "%s has decided a request: %s", other, line)
		}
	}
}

// spend sends requests until one is refused with 429. It returns how many passed, and the refusal. At
// least limit must pass, and at most those that are refilled meanwhile, perSecond. Where many are, it sends several
// requests at once, so that they are faster on a busy machine too.
func (e recipeEnv) spend(t *testing.T, limit int, perSecond float64, path string, headers ...string) (passed int, refusal caddytest.Response) {
	t.Helper()
	begin, atOnce, refused := time.Now(), 1, false
	if perSecond >= 1 {
		atOnce = 10
	}
	for {
		for _, a := range e.Crowd(t, atOnce, path, headers...) {
			if a.Status == http.StatusOK {
				passed++
				continue
			}
			caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
			refused, refusal = true, a
		}
		most := limit + int(math.Ceil(perSecond*time.Since(begin).Seconds())) // an estimate rounds down what is used
		redistest.FatalIf(t, refused && passed < limit || passed > most, "%s: %d requests passed, want %d to %d", path, passed, limit, most)
		if refused {
			return passed, refusal
		}
	}
}

// backend is the server that the recipes protect.
type backend struct {
	holder *caddytest.Holder

	mu       sync.Mutex
	arrivals []time.Time
}

// ServeHTTP checks passwords at /login, reports used tokens at /v1/ in headers or bodies, answers gRPC calls,
// queries, scripts of other sites and downloads, and holds WebSockets and requests with hold in their query.
func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	b.arrivals = append(b.arrivals, time.Now())
	b.mu.Unlock()
	if serveGRPC(w, r) || serveUsage(w, r) || serveModel(w, r) || serveOrigin(w, r) || b.hold(w, r) {
		return
	}
	if tokens, found := tokensOf[r.URL.Path]; found {
		w.Header().Set("X-Tokens-Used", tokens)
	}
	if r.Method == http.MethodPost && r.URL.Path == "/login" && r.FormValue("password") != "right" {
		w.WriteHeader(http.StatusUnauthorized)
	}
}

// tokensOf maps paths to the tokens that the backend reports.
var tokensOf = map[string]string{"/v1/chat": "4000", "/v1/free": "0"}

// seen returns the times of the requests.
func (b *backend) seen() []time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.arrivals
}
