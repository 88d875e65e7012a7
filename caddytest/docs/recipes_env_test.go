package docs

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// recipeEnv is a Caddy that runs a recipe, with the backend of the recipe.
type recipeEnv struct {
	*caddytest.Node
	backend *backend
	inbox   *caddytest.Inbox // of a recipe with a webhook
	waits   bool             // requests wait for places, which go on to others without a question to Redis
}

const (
	recipeAddress = "\n:8080 {\n"
	recipeBackend = "127.0.0.1:9000"
	recipeSmall   = "127.0.0.1:9001" // another backend, which answers "small"
	recipeRoot    = "/srv/www"
	recipeHash    = "$2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG" // which takes a second
	quickHash     = "$2a$04$ZdZs1NQ4eEe3..irYwiyBeqP0sljyl6ck1RB8mCBUlOrgQ23JTVnW" // of the same password, which takes a millisecond
	recipeSystem  = "{geo.geolite2-asn.autonomous_system_number}"
	recipeJWT     = "jwtauth {\n\t\t\tjwk_url https://id.example.com/.well-known/jwks.json\n\t\t\tuser_claims sub\n\t\t\tmeta_claims tenant\n\t\t}\n"
)

// quickAccounts are alice and who is written otherwise: for an account that it does not have, basic_auth computes a hash
// that takes a second, too.
const quickAccounts = "alice " + quickHash + "\nAlice " + quickHash + "\nALICE " + quickHash

// recipeRedis is the global option of a recipe, in place of which a test has its own.
var recipeRedis = regexp.MustCompile(`\tredis_ratelimit \{\n\t\tredis redis://127\.0\.0\.1:6379\n(?:\t\thash_keys .*\n)?(?:\t\twebhook .*\n(?:\t\t\t.*\n)*\t\t\}\n)?\t\}\n`)

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
	assert.FatalIf(t, strings.Count(text, recipeAddress) != 1, "the recipe has no one site on :8080:\n%s", text)
	text = strings.Replace(text, recipeAddress, "\n:{$PORT} {\n", 1)
	text = strings.ReplaceAll(text, "php_fastcgi "+recipeBackend, "php_fastcgi "+caddytest.ServeFastCGI(t, b))
	text = strings.ReplaceAll(text, recipeBackend, server.Listener.Addr().String())
	text = strings.ReplaceAll(text, recipeRoot, siteRoot(t))
	text = strings.ReplaceAll(text, "alice "+recipeHash, quickAccounts)
	text = strings.ReplaceAll(text, recipeHash, quickHash)
	text = strings.ReplaceAll(text, recipeSmall, caddytest.Serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("small")) }))
	text = strings.ReplaceAll(text, recipeSystem, "{header.X-As}") // the module that has it is no part of this Caddy
	inbox := caddytest.NewInbox(t)
	if strings.Contains(text, "\twebhook ") {
		option = strings.TrimSuffix(cmp.Or(option, "redis_ratelimit {\n}"), "}") + "webhook " + inbox.URL + " {\nsecret " + caddytest.InboxSecret + "\nevents threshold\n}\n}"
	}
	text = withoutJWT.Replace(recipeRedis.ReplaceAllString(text, ""))
	if own := "\tredis_ratelimit {\n\t\tcrawlers "; strings.Contains(text, own) { // which is one block with the test's
		text = strings.Replace(text, own, strings.TrimSuffix(cmp.Or(option, "redis_ratelimit {\n}"), "}")+"crawlers ", 1)
		option = ""
	}
	options := "\tadmin {$ADMIN}\n\tauto_https off\n\tdefault_bind 127.0.0.1\n\tgrace_period 1s\n" + option + "\n"
	own, found := strings.CutPrefix(text, "\n{\n")
	if !found {
		own = "}\n" + text
	}
	return recipeEnv{caddytest.Start(t, "{\n"+options+own), b, inbox, strings.Contains(text, "\twait ")}
}

// checkSource checks the source of all decisions: a test on Redis must not be decided by memory.
func (e recipeEnv) checkSource(t *testing.T, source string) {
	t.Helper()
	others := map[string][]string{"memory": {"redis", "deny_cache", "fallback"}, "redis": {"memory", "fallback"}}[source]
	text := e.Send(t, http.MethodGet, e.Admin+"/metrics", "").Body
	assert.ErrorIf(t, !strings.Contains(text, `source="`+source+`"`), "nothing was decided by %s", source)
	for _, other := range others {
		for line := range strings.Lines(text) {
			ofNode := other == "memory" && (e.waits || strings.Contains(line, `decision="denied"`)) // a limit of 0 needs no store
			assert.ErrorIf(t, strings.Contains(line, `source="`+other+`"`) && !ofNode, "%s has decided a request: %s", other, line)
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
		assert.FatalIf(t, refused && passed < limit || passed > most, "%s: %d requests passed, want %d to %d", path, passed, limit, most)
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

// ServeHTTP checks passwords at /login, of which it stalls on one, and at forms that are shown again, reports used tokens at /v1/ in headers or bodies, answers gRPC calls,
// queries, scripts of other sites and downloads, repeats events below /hooks/, and holds WebSockets and requests with hold in their query.
func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	b.arrivals = append(b.arrivals, time.Now())
	b.mu.Unlock()
	if serveGRPC(w, r) || serveUsage(w, r) || servePlan(w, r) || serveModel(w, r) || serveOrigin(w, r) || b.hold(w, r) {
		return
	}
	if tokens, found := tokensOf[r.URL.Path]; found {
		w.Header().Set("X-Tokens-Used", tokens)
	}
	if strings.HasPrefix(r.URL.Path, "/hooks/") {
		_, _ = io.Copy(w, r.Body)
	}
	if strings.HasPrefix(r.URL.Path, "/v1/") { // a client may not see a response that came before the end of its upload
		_, _ = io.Copy(io.Discard, r.Body)
	}
	path := routed(r.URL.Path)
	if isForm := path == "/wp-login.php" || path == "/admin/login" || path == "/users/sign_in"; isForm && r.Method == http.MethodPost && r.FormValue("password") == "right" {
		http.Redirect(w, r, "/", http.StatusFound)
	}
	if r.Header.Get("Next-Action") != "" {
		if r.FormValue("password") == "right" {
			w.Header().Set("X-Action-Redirect", "/;push")
		}
		return
	}
	if r.Method == http.MethodPost && path == "/login" {
		switch r.FormValue("password") {
		case "right":
			if r.FormValue("then") != "" {
				http.Redirect(w, r, r.FormValue("then"), http.StatusSeeOther)
			}
		case "stall":
			<-r.Context().Done()
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}
}

// routed returns the path that Express, Rails, Tomcat and PHP together make of one.
func routed(path string) string {
	if script := strings.Index(path, ".php/"); script >= 0 {
		path = path[:script+len(".php")]
	}
	path, _, _ = strings.Cut(strings.ToLower(strings.Trim(path, "/")), ";")
	return "/" + strings.TrimSuffix(strings.TrimSuffix(path, "/"), ".json")
}

// tokensOf maps paths to the tokens that the backend reports.
var tokensOf = map[string]string{"/v1/chat": "4000", "/v1/free": "0"}

// seen returns the times of the requests.
func (b *backend) seen() []time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.arrivals
}

// modelCall is a call of a model's API, with an answer in the form of that API.
type modelCall struct {
	path, contentType, answer string
	cost                      int64
	counts                    string // in the header, of input and output; empty: none
}

const modelFallback = 4000

// modelCalls has the calls of each API that docs/caddyfile.md lists for cost llm.
var modelCalls = map[string][]modelCall{
	"OpenAI chat completions, and what is compatible with it": {
		{"/v1/chat", "application/json", `{"usage":{"prompt_tokens":20,"completion_tokens":40,"total_tokens":60}}`, 60, ""},
	},
	"streams of OpenAI responses": {
		{"/v1/responses", "application/json", `{"usage":{"input_tokens":20,"output_tokens":40,"total_tokens":60}}`, 60, ""},
		{"/v1/responses", "text/event-stream", "event: response.completed\ndata: {\"response\":{\"usage\":{\"total_tokens\":60}}}\n\n", 60, ""},
	},
	"Anthropic messages": {
		{"/v1/messages", "application/json", `{"usage":{"input_tokens":21,"cache_creation_input_tokens":500,"cache_read_input_tokens":20000,"output_tokens":19}}`, 20540, ""},
		{"/v1/messages", "text/event-stream", "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":21,\"cache_creation_input_tokens\":500,\"cache_read_input_tokens\":20000,\"output_tokens\":1}}}\n\nevent: message_delta\ndata: {\"usage\":{\"output_tokens\":19}}\n\nevent: message_stop\ndata: {}\n\n", 20540, ""},
		{"/v1/messages", "application/json", `{"usage":{"input_tokens":21,"cache_creation_input_tokens":null,"cache_read_input_tokens":0,"output_tokens":19}}`, 40, ""},
	},
	"Gemini": {
		{"/v1beta/models/m:generateContent", "application/json", `{"usageMetadata":{"promptTokenCount":8,"thoughtsTokenCount":60,"totalTokenCount":68}}`, 68, ""},
		{"/v1beta/models/m:streamGenerateContent?alt=sse", "text/event-stream", "data: {\"usageMetadata\":{\"promptTokenCount\":8,\"candidatesTokenCount\":5,\"totalTokenCount\":13}}\r\n\r\ndata: {\"usageMetadata\":{\"promptTokenCount\":8,\"candidatesTokenCount\":30,\"totalTokenCount\":38}}\r\n\r\n", 38, ""},
		{"/v1beta/models/m:streamGenerateContent", "application/json", `[{"usageMetadata":{"totalTokenCount":13}},{"usageMetadata":{"totalTokenCount":38}}]`, 38, ""},
	},
	"Ollama's own API": {
		{"/api/chat", "application/x-ndjson", "{\"done\":false}\n{\"done\":true,\"prompt_eval_count\":26,\"eval_count\":40}\n", 66, ""},
		{"/api/chat", "application/x-ndjson", "{\"done\":false}\n{\"done\":true,\"eval_count\":40}\n", 40, ""},
		{"/api/chat", "application/x-ndjson", "{\"done\":false}\n{\"done\":true}\n", modelFallback, ""},
	},
	"Bedrock Converse": {
		{"/model/amazon.nova-lite-v1%3A0/converse", "application/json", `{"output":{"message":{"role":"assistant","content":[{"text":"Hello."}]}},"stopReason":"end_turn","usage":{"inputTokens":30,"outputTokens":12,"totalTokens":42},"metrics":{"latencyMs":551}}`, 42, ""},
		{"/model/m/converse", "application/json", `{"usage":{"inputTokens":18,"outputTokens":386,"totalTokens":7906,"cacheReadInputTokens":0,"cacheWriteInputTokens":7502}}`, 7906, "18 386"},
		{"/model/m/converse-stream", "application/vnd.amazon.eventstream", "\x00\x00\x00\x90", modelFallback, ""},
	},
	"Bedrock InvokeModel": {
		{"/model/m/invoke", "application/json", `{"generation":"Hello.","stop_reason":"stop"}`, 42, "30 12"},
		{"/model/m/invoke", "application/json", `{"content":[{"type":"text","text":"Hello."}],"usage":{"input_tokens":30,"output_tokens":12}}`, 42, "30 12"},
		{"/model/m/invoke", "application/json", `{"generation":"Hello."}`, modelFallback, "-30 12"},
	},
	"Cohere v2": {
		{"/v2/chat", "application/json", `{"finish_reason":"COMPLETE","message":{"role":"assistant","content":[{"type":"text","text":"Hello."}]},"usage":{"billed_units":{"input_tokens":5,"output_tokens":12},"tokens":{"input_tokens":30,"output_tokens":12}}}`, 42, ""},
		{"/v2/chat", "text/event-stream", "event: content-delta\ndata: {\"type\":\"content-delta\",\"delta\":{\"message\":{\"content\":{\"text\":\"Hello.\"}}}}\n\nevent: message-end\ndata: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"COMPLETE\",\"usage\":{\"billed_units\":{\"input_tokens\":5,\"output_tokens\":12},\"tokens\":{\"input_tokens\":30,\"output_tokens\":12}}}}\n\ndata: [DONE]\n\n", 42, ""},
		{"/v2/embed", "application/json", `{"embeddings":{"float":[[0.5]]},"meta":{"billed_units":{"input_tokens":42}}}`, 42, ""},
	},
}

// serveModel answers as the test of a model's API asks it to.
func serveModel(w http.ResponseWriter, r *http.Request) bool {
	contentType := r.Header.Get("X-Answer-Type")
	if contentType == "" {
		return false
	}
	if counts := r.Header.Get("X-Answer-Counts"); counts != "" {
		input, output, _ := strings.Cut(counts, " ")
		w.Header().Set("X-Amzn-Bedrock-Input-Token-Count", input)
		w.Header().Set("X-Amzn-Bedrock-Output-Token-Count", output)
	}
	answer, _ := url.PathUnescape(r.Header.Get("X-Answer")) // of a test
	w.Header().Set("Content-Type", contentType)
	_, _ = io.WriteString(w, answer)
	return true
}

// modelKeys has the headers in which clients of APIs send their keys, where that is not Authorization.
var modelKeys = map[string]string{"Anthropic messages": "X-Api-Key", "Gemini": "X-Goog-Api-Key"}

// modelItem finds the items of the list of APIs.
var modelItem = regexp.MustCompile("(?m)^- ([^:`]+): ")

// TestRecipes_models writes the key of each API's clients into the recipe, and charges answers of that API.
func TestRecipes_models(t *testing.T) {
	t.Parallel()
	_, list, _ := strings.Cut(caddytest.ReadFile(t, "docs/caddyfile.md"), "\n## Costs in the body\n")
	list, _, _ = strings.Cut(list, "`cost json` takes")
	items := modelItem.FindAllStringSubmatch(list, -1)
	assert.FatalIf(t, len(items) != len(modelCalls), "the list has %d APIs, the test %d", len(items), len(modelCalls))
	_, section, _ := strings.Cut(readRecipesText(t), "\n## Language-model gateway\n")
	section, _, _ = strings.Cut(section, "\n## ")
	const limit = 1_000_000
	for _, item := range items {
		t.Run(item[1], func(t *testing.T) {
			t.Parallel()
			key := cmp.Or(modelKeys[item[1]], "Authorization")
			assert.ErrorIf(t, !strings.Contains(section, "{header."+key+"}"), "the recipe does not name the header %s", key)
			caddyfile := strings.NewReplacer("{header.Authorization}", "{header."+key+"}",
				"/v1beta/*", "/v1beta/* /api/chat /model/* /v2/*",
				"limit 100000", fmt.Sprint("limit ", limit),
			).Replace(wholeCaddyfile.FindStringSubmatch(section)[1])
			e, left := runRecipe(t, caddyfile, ""), int64(limit)
			calls := modelCalls[item[1]]
			assert.FatalIf(t, calls == nil, "the test has no calls of the API")
			for _, call := range calls {
				a := e.Send(t, http.MethodPost, e.URL+call.path, `{"max_tokens":50000}`, key+": acme", ofJSON,
					"X-Answer-Type: "+call.contentType, "X-Answer: "+url.PathEscape(call.answer), "X-Answer-Counts: "+call.counts)
				a.Want(t, http.StatusOK, call.answer)
				caddytest.CheckQuota(t, a, limit, left-50_000) // taken in advance
				left -= max(1, call.cost)
				e.WaitForRefund(t, "tokens", "acme", left)
			}
		})
	}
}

// checkRetries checks that a client with a debt is told not to try again.
func (e recipeEnv) checkRetries(t *testing.T) {
	t.Helper()
	const client, generated = "Authorization: in debt", "X-Stainless-Lang: js"
	e.ask(t, `{"costs":200000}`, client)
	assert.WaitFor(t, "the debt counts", func() error {
		a := e.ask(t, `{"costs":0}`, client, generated)
		if a.Status != http.StatusTooManyRequests {
			return fmt.Errorf("got %v", a)
		}
		isLong, got := retryAfter(t, a) > 60, a.Header.Get("X-Should-Retry") // the day may end
		assert.ErrorIf(t, isLong != (got == "false"), "got %v; want X-Should-Retry false if the wait is long", a)
		return nil
	})
}

const recipeOrigin = "https://app.example.com"

// serveOrigin allows scripts of another site to read answers.
func serveOrigin(w http.ResponseWriter, r *http.Request) bool {
	if r.Header.Get("Origin") != recipeOrigin {
		return false
	}
	w.Header().Set("Access-Control-Allow-Origin", recipeOrigin)
	if r.Method == http.MethodOptions {
		w.Header().Set("Access-Control-Allow-Headers", "Authorization")
		w.WriteHeader(http.StatusNoContent)
	}
	return true
}

func recipeOrigins(t *testing.T, e recipeEnv) {
	const origin = "Origin: " + recipeOrigin
	_, refusal := e.spend(t, 60, 60*minutely, "/", asAcme, origin)
	for range 70 {
		e.Send(t, http.MethodOptions, e.URL, "", origin, "Access-Control-Request-Headers: authorization").Want(t, http.StatusNoContent, caddytest.Any, caddytest.NoQuota) // preflights are not limited
	}
	caddytest.CheckQuota(t, refusal, 60, 0)
	for name, a := range map[string]caddytest.Response{"passed": e.Get(t, "/", asBolt, origin), "denied": refusal, "rejected": e.Get(t, "/", origin)} {
		allowed := a.Header["Access-Control-Allow-Origin"]
		assert.ErrorIf(t, len(allowed) != 1 || allowed[0] != recipeOrigin, "%s: got %v; want it readable", name, a)
		exposed, shown := a.Header.Get("Access-Control-Expose-Headers"), a.Header.Get("X-Ratelimit-Remaining") != ""
		assert.ErrorIf(t, shown == (name == "rejected") || shown && !strings.Contains(strings.ToLower(exposed), "x-ratelimit-remaining"), "%s: got %v; want the quota readable", name, a)
	}
	assert.ErrorIf(t, !strings.Contains(refusal.Header.Get("Access-Control-Expose-Headers"), "Retry-After") || refusal.Body != "429 Too Many Requests", "got %v; want a denial that scripts understand", refusal)
}

// TestRecipes_preflights plays the lines for a site that answers preflights in Caddy.
func TestRecipes_preflights(t *testing.T) {
	t.Parallel()
	const heading = "\n## Calls from scripts of other sites\n"
	_, section, _ := strings.Cut(readRecipesText(t), heading)
	_, lines, found := strings.Cut(section, "\n```caddyfile-snippet\n")
	lines, _, _ = strings.Cut(lines, "```")
	recipe := wholeCaddyfile.FindStringSubmatch(section)
	assert.FatalIf(t, !found || recipe == nil, "the recipe has no lines for preflights")
	onRecipe(t, strings.Replace(recipe[1], "\t@calls not method OPTIONS\n", lines, 1), func(t *testing.T, e recipeEnv) {
		const origin = "Origin: " + recipeOrigin
		for range 70 {
			a := e.Send(t, http.MethodOptions, e.URL, "", origin, "Access-Control-Request-Method: GET")
			a.Want(t, http.StatusNoContent, caddytest.Any, caddytest.NoQuota, "Access-Control-Allow-Origin: "+recipeOrigin)
		}
		caddytest.CheckQuota(t, e.Send(t, http.MethodOptions, e.URL, "", origin, asAcme), 60, 59) // no preflight
		assert.ErrorIf(t, len(e.backend.seen()) != 1, "%d requests reached the application, want the other one", len(e.backend.seen()))
	})
}
