package docs

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// recipe is a section of docs/recipes.md or docs/migrating.md.
type recipe struct {
	heading    string
	caddyfiles []string // its blocks that are whole Caddyfiles; exactly one
}

// recipeTests are the tests of the recipes, by heading.
var recipeTests = map[string]func(*testing.T, recipeEnv){
	"Log-in protection":                          recipeLogIn,
	"A log-in that answers 200":                  recipeFormAgain,
	"A log-in by Next.js":                        recipeServerAction,
	"A log-in by tRPC":                           recipeBatchedLogIn,
	"WordPress":                                  recipeWordPress,
	"Passwords that Caddy or git asks for":       recipeBasic,
	"Hang up on the banned":                      recipeHangUp,
	"Pages without their files":                  recipePages,
	"A page for refusals":                        recipeRefusalPage,
	"Asked by another server":                    recipeAsked,
	"Block a client now":                         recipeBlock,
	"Ban who asks for /.env from the whole site": recipeTrap,
	"After ten searches no checkout":             recipeSearches,
	"Bots by User-Agent":                         recipeBots,
	"A ladder against swarms":                    recipeLadder,
	"Against crawlers":                           recipeCrawlers,
	"Behind proxies and caches":                  recipeCDN,
	"Cloudflare and its Workers":                 recipeWorkers,
	"API tiers by key":                           recipeTiers,
	"Plans from your own database":               recipePlans,
	"A claim of a JWT as key":                    recipeClaim,
	"One route and the whole site":               recipeRouteAndSite,
	"Burst and sustained rate":                   recipeBurst,
	"A budget per month":                         recipeMonth,
	"A customer's month":                         recipeCustomersMonth,
	"Calls from scripts of other sites":          recipeOrigins,
	"gRPC service":                               recipeGRPC,
	"GraphQL query costs":                        recipeGraphQL,
	"Batches of calls":                           recipeCalls,
	"A webhook by tenant":                        recipeEvents,
	"Language-model gateway":                     recipeGateway,
	"A model server with eight slots":            recipeModel,
	"A budget in money":                          recipeMoney,
	"Over quota, go elsewhere":                   recipeElsewhere,
	"Tools of an MCP server":                     recipeTools,
	"A weak backend":                             recipeWeakBackend,
	"Time of the backend":                        recipeBackendTime,
	"PHP-FPM workers":                            recipePHP,
	"Shedding load by class":                     recipeShed,
	"Limits by time of day":                      recipeTimeOfDay,
	"Parallel requests of a customer":            recipeParallel,
	"WebSockets per user":                        recipeWebSockets,
	"Downloads":                                  recipeDownloads,
	"Packages, mirrors and repositories":         recipeMirror,
	"A package mirror":                           recipeFiles,
	"Roll a limit out":                           recipeDryRun,
	"Moving from mholt/caddy-ratelimit":          recipeMove,
	"The words of other limiters":                recipeWords,
}

func TestRecipes(t *testing.T) {
	t.Parallel()
	for _, r := range readRecipes(t) {
		t.Run(r.heading, func(t *testing.T) {
			t.Parallel()
			run := recipeTests[r.heading]
			assert.FatalIf(t, run == nil || len(r.caddyfiles) != 1, "the recipe has no test, or not one Caddyfile")
			caddytest.CheckCaddyfile(t, withoutJWT.Replace(r.caddyfiles[0]), variables(r.caddyfiles[0]))
			onRecipe(t, r.caddyfiles[0], run)
		})
	}
}

// TestRecipes_variants plays what the recipes say of other lines.
func TestRecipes_variants(t *testing.T) {
	t.Parallel()
	for name, variant := range map[string]struct {
		heading string
		changes []string
		run     func(*testing.T, recipeEnv)
	}{
		"a part of the clients":    {"Roll a limit out", []string{"dry_run", "enforce 10%"}, recipeRollout},
		"a page without log lines": {"A page for refusals", []string{"handle_errors 429 {\n", "log {\noutput stderr\n}\nhandle_errors 429 {\nlog_skip\n"}, recipeUnlogged},
		"all day":                  {"Limits by time of day", []string{"~T(2[23]|0[0-6]):", "~T"}, recipeAllDay},
		"no challenge":             {"Against crawlers", []string{"\t\t\tchallenge\n", ""}, recipeCrawlersWithout},
		"tokens in a header": {"Language-model gateway", []string{
			"match method POST\n", "", "\tmethod POST\n", "", "limit 60\n", "limit 1000000\n", "limit 100000", "limit 10000",
			"window day", "window 1h\n\t\t\t\talgorithm token_bucket", "weight llm 4000\n", "",
			"cost llm 4000", "cost {http.reverse_proxy.header.X-Tokens-Used} 500",
		}, recipeTokens},
		"pictures":         {"Language-model gateway", []string{"on_empty_key reject\n", "on_empty_key reject\n\t\t\tbody 16MiB\n"}, recipePictures},
		"calls in vain":    {"Language-model gateway", []string{"wait 30s", "wait 200ms"}, recipeGatewayInVain},
		"a wait in vain":   {"A package mirror", []string{"wait 12s", "wait 200ms"}, recipeFilesInVain},
		"a log-in by JSON": {"Log-in protection", []string{"{form.email}", "{json.email}"}, recipeLogInByJSON},
		"a log-in that stalls": {"Log-in protection", []string{
			"reverse_proxy 127.0.0.1:9000", "reverse_proxy 127.0.0.1:9000 {\ntransport http {\nresponse_header_timeout 1s\n}\n}",
		}, recipeStalls},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, r := range readRecipes(t) {
				if r.heading == variant.heading {
					onRecipe(t, strings.NewReplacer(variant.changes...).Replace(r.caddyfiles[0]), variant.run)
				}
			}
		})
	}
}

// onRecipe runs a recipe in the process and on Redis.
func onRecipe(t *testing.T, caddyfile string, run func(*testing.T, recipeEnv)) {
	t.Helper()
	for source, option := range caddytest.Stores(t) {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			e := runRecipe(t, caddyfile, option)
			awayFromMinute(time.Since(began))
			run(t, e)
			e.checkSource(t, source)
		})
	}
}

// awayFromMinute waits for the next minute where this one ends soon. Windows of minutes, hours and days end then, and
// a test may count the units of one. A machine that has started Caddy slowly is busy, and needs longer for the test.
func awayFromMinute(started time.Duration) {
	enough := min(max(6*time.Second, 4*started), 30*time.Second) // for most recipes
	if left := time.Minute - time.Duration(time.Now().UnixNano())%time.Minute; left < enough {
		<-time.After(left)
	}
}

func TestRecipes_complete(t *testing.T) {
	t.Parallel()
	text, recipes := readRecipesText(t), readRecipes(t)
	assert.FatalIf(t, len(recipes) == 0, "docs/recipes.md has no recipe")
	for _, problem := range gaps(text, recipes) {
		t.Error(problem)
	}
}

// TestRecipes_incomplete shows that the test above can fail.
func TestRecipes_incomplete(t *testing.T) {
	t.Parallel()
	const whole = "\n\n```caddyfile\n:8080 {\n}\n```\n"
	text := readRecipesText(t)
	for name, test := range map[string]struct{ text, want string }{
		"a new recipe":             {text + "\n## Something new" + whole, "Something new: no test"},
		"a recipe without a file":  {text + "\n## Something new\n", "Something new: 0 Caddyfiles, want 1"},
		"a recipe with two files":  {text + "\n## Something new" + whole + whole, "Something new: 2 Caddyfiles, want 1"},
		"a recipe that is missing": {strings.Replace(text, "\n## Behind proxies and caches\n", "\n### Behind proxies and caches\n", 1), "Behind proxies and caches: no recipe"},
		"contents that lack one":   {strings.Replace(text, "[Behind proxies and caches]", "[Behind]", 1), "Behind proxies and caches: not in the contents"},
	} {
		problems := gaps(test.text, parseRecipes(test.text))
		assert.ErrorIf(t, !slices.Contains(problems, test.want), "%s: got %q, want %q among them", name, problems, test.want)
	}
}

// gaps returns the recipes without a test, a Caddyfile or a link, and the tests without a recipe.
func gaps(text string, recipes []recipe) (problems []string) {
	documented := map[string]bool{}
	for _, r := range recipes {
		documented[r.heading] = true
		if recipeTests[r.heading] == nil {
			problems = append(problems, r.heading+": no test")
		}
		if count := len(r.caddyfiles); count != 1 {
			problems = append(problems, fmt.Sprintf("%s: %d Caddyfiles, want 1", r.heading, count))
		}
		if !strings.Contains(text, "["+r.heading+"](#"+anchor(r.heading)+")") {
			problems = append(problems, r.heading+": not in the contents")
		}
	}
	for heading := range recipeTests {
		if !documented[heading] {
			problems = append(problems, heading+": no recipe")
		}
	}
	return problems
}

func readRecipesText(t *testing.T) string {
	t.Helper()
	return caddytest.ReadFile(t, "docs/recipes.md") + "\n" + caddytest.ReadFile(t, "docs/migrating.md")
}

func readRecipes(t *testing.T) []recipe {
	t.Helper()
	return parseRecipes(readRecipesText(t))
}

// parseRecipes returns every section of the second level as a recipe.
func parseRecipes(text string) (recipes []recipe) {
	for _, section := range strings.Split(text, "\n## ")[1:] {
		heading, _, _ := strings.Cut(section, "\n")
		r := recipe{heading: heading}
		for _, block := range wholeCaddyfile.FindAllStringSubmatch(section, -1) {
			r.caddyfiles = append(r.caddyfiles, block[1])
		}
		recipes = append(recipes, r)
	}
	return recipes
}

// TestRecipes_longWindows compares the ends of windows with docs/migrating.md: a
// week ends on a Thursday, and Envoy's MONTH and YEAR are 30 and 365 days from the Unix epoch.
func TestRecipes_longWindows(t *testing.T) {
	n := caddytest.InProcess(t, `redis_ratelimit /7d same 5 7d { name week; algorithm fixed_window }
	redis_ratelimit /30d same 5 30d { name month; algorithm fixed_window }
	redis_ratelimit /365d same 5 365d { name year; algorithm fixed_window }
	respond "Hello."`)
	for path, days := range map[string]int64{"/7d": 7, "/30d": 30, "/365d": 365} {
		a := n.Get(t, path)
		ends, err := strconv.ParseInt(a.Header.Get("X-Ratelimit-Reset"), 10, 64)
		assert.FatalIf(t, err != nil, "%s: got %v; want X-RateLimit-Reset", path, a)
		// The header is rounded up to whole seconds, and time has passed since the decision.
		end := time.Unix(ends, 0).UTC().Truncate(time.Minute)
		past := end.Unix() % (days * 86400)
		assert.ErrorIf(t, past != 0 || (days == 7 && end.Weekday() != time.Thursday), "%s: the window ends at %v, %d s past %d days from the epoch", path, end.Format(time.RFC1123), past, days)
	}
}

// TestJSON_example loads the example of docs/json.md, with each of the stores.
func TestJSON_example(t *testing.T) {
	_, example, _ := strings.Cut(caddytest.ReadFile(t, "docs/json.md"), "```json\n")
	example, _, _ = strings.Cut(example, "```")
	caddytest.OnBothStores(t, func(t *testing.T, global, source string) {
		began := time.Now()
		n := caddytest.Start(t, caddytest.ConfigWithSites("", ""))
		app, _, _ := strings.Cut(strings.TrimPrefix(global, "redis_ratelimit {\nredis redis://"), "\n")
		config := strings.NewReplacer(
			`":8080"`, `"`+strings.TrimPrefix(n.URL, "http://")+`"`,
			"127.0.0.1:6379/0", app, `"100ms"`, `"10s"`,
			"{\n\t\"apps\"", `{"admin": {"listen": "`+strings.TrimPrefix(n.Admin, "http://")+`"}, "apps"`,
		).Replace(example)
		if source == "memory" {
			config = strings.Replace(config, `"redis": {"url": "redis://"}, `, "", 1)
		}
		n.Load(t, config, "Content-Type: application/json").Want(t, http.StatusOK, caddytest.Any)
		awayFromMinute(time.Since(began))
		for left := int64(99); left > 96; left-- {
			caddytest.CheckQuota(t, n.Get(t, "/").Want(t, http.StatusOK, "Hello."), 100, left)
		}
		recipeEnv{Node: n}.checkSource(t, source)
	})
}
