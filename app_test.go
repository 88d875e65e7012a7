package redisratelimit

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/options"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/requestbody"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// nowhere is an app whose Redis is not there, which no test minds.
const nowhere = `{"redis":{"url":"redis://127.0.0.1:1"}}`

// references counts who holds the stores, and the stores.
func references(t testing.TB) (holders, held int) {
	t.Helper()
	pool.Range(func(key, _ any) bool {
		count, _ := pool.References(key)
		holders += count
		held++
		return true
	})
	return holders, held
}

func checkReferences(t testing.TB, holders, held int) {
	t.Helper()
	if gotHolders, gotHeld := references(t); gotHolders != holders || gotHeld != held {
		t.Errorf("%d stores are held %d times, want %d held %d times", gotHeld, gotHolders, held, holders)
	}
}

func loadApp(ctx caddy.Context) (*App, error) {
	module, err := ctx.App(options.AppName)
	if err != nil {
		return nil, err
	}
	return module.(*App), nil //nolint:forcetypeassert,errcheck // nothing else has the name
}

// appOf loads an app that is right.
func appOf(t testing.TB, ctx caddy.Context) *App {
	t.Helper()
	app := assert.NoError(loadApp(ctx))(t)
	return app
}

func TestApp_has_defaults(t *testing.T) {
	app := appOf(t, lastingContext(t, ""))
	if time.Duration(app.Timeout) != 100*time.Millisecond || app.FailMode != limiter.FailLocal || *app.KeyPrefix != "rl" {
		t.Errorf("got timeout %v, fail_mode %s, key_prefix %q; want 100ms, local, rl", time.Duration(app.Timeout), app.FailMode, *app.KeyPrefix)
	}
}

func TestHandler_has_defaults(t *testing.T) {
	h := newHandler(t, `{"policies":[{"limit":5,"window":"1m"}]}`)
	p := h.Policies[0]
	if p.Name != "default" || p.Key != "{http.vars.client_ip}" || p.Algorithm != "sliding_window_counter" || p.Weight != 1 {
		t.Errorf("got the policy %+v", *p)
	}
	if h.Status != 429 || *h.IPv4Prefix != 32 || *h.IPv6Prefix != 64 || h.OnEmptyKey != "client_ip" || h.FailMode != limiter.FailLocal {
		t.Errorf("got the handler %+v", *h)
	}
}

func TestHandler_takes_the_fail_mode_of_the_app(t *testing.T) {
	ctx, end := newContext(t, `{"fail_mode":"closed"}`)
	defer end()
	h := loadHandler(t, ctx, policyJSON("p", "5"))
	assert.ErrorIf(t, h.FailMode != limiter.FailClosed, "got fail_mode %s, want closed", h.FailMode)
	own := loadHandler(t, ctx, strings.Replace(policyJSON("p", "5"), "{", `{"fail_mode":"open",`, 1))
	assert.ErrorIf(t, own.FailMode != limiter.FailOpen, "got fail_mode %s, want the handler's own", own.FailMode)
}

func TestStores_are_shared_by_equal_settings_and_released_with_the_last(t *testing.T) {
	first, endFirst := newContext(t, nowhere)
	second, endSecond := newContext(t, nowhere)
	third, endThird := newContext(t, strings.Replace(nowhere, "127.0.0.1:1", "127.0.0.1:2", 1))
	apps := []*App{appOf(t, first), appOf(t, second), appOf(t, third)}
	assert.ErrorIf(t, apps[0].opened.Redis != apps[1].opened.Redis || apps[0].opened.Redis == apps[2].opened.Redis,
		"equal settings do not share a client, or different ones do")
	checkReferences(t, 6, 3) // the in-process store, and two clients
	endFirst()
	checkReferences(t, 4, 3)
	if err := dial.Ping(context.Background(), apps[1].opened.Redis.Store.Client()); err == nil || strings.Contains(err.Error(), "closed") {
		t.Errorf("the shared client answers %v; want it open, and no server", err)
	}
	endSecond()
	endThird()
	checkReferences(t, 0, 0)
}

func TestStores_are_told_apart_by_every_setting(t *testing.T) {
	t.Setenv("OTHER_PASSWORD", "other")
	seen := map[*storepool.Redis]string{}
	for _, text := range []string{
		`{"redis":{"url":"redis://127.0.0.1:1"}}`,
		`{"redis":{"url":"redis://127.0.0.1:1/1"}}`,
		`{"redis":{"url":"redis://:password@127.0.0.1:1"}}`,
		`{"redis":{"url":"redis://user:password@127.0.0.1:1"}}`,
		`{"redis":{"url":"redis://user:{env.OTHER_PASSWORD}@127.0.0.1:1"}}`,
		`{"redis":{"url":"rediss://127.0.0.1:1"}}`,
		`{"redis":{"url":"redis://127.0.0.1:1","tls":{"server_name":"a"}}}`,
		`{"redis":{"url":"redis://127.0.0.1:1","tls":{"server_name":"b"}}}`,
		`{"redis":{"url":"redis://127.0.0.1:1","pool_size":7}}`,
		`{"redis":{"url":"redis://127.0.0.1:1"},"timeout":"1s"}`,
		`{"redis":{"url":"redis://127.0.0.1:1"},"key_prefix":"x"}`,
		`{"redis":{"url":"redis://127.0.0.1:1"},"hash_keys":"x"}`,
		`{"redis":{"addresses":["127.0.0.1:1"],"mode":"cluster"}}`,
		`{"redis":{"addresses":["127.0.0.1:1"],"mode":"sentinel","master":"a"}}`,
		`{"redis":{"addresses":["127.0.0.1:1"],"mode":"sentinel","master":"a","sentinel_password":"x"}}`,
	} {
		app, err := loadApp(lastingContext(t, text))
		assert.FatalIf(t, err != nil, "%s: %v", text, err)
		other, found := seen[app.opened.Redis]
		assert.ErrorIf(t, found, "%s and %s share a client", text, other)
		seen[app.opened.Redis] = text
	}
}

func TestFailed_Provision_of_the_app_releases_what_it_acquired(t *testing.T) {
	running, end := newContext(t, nowhere)
	defer func() { end(); checkReferences(t, 0, 0) }()
	appOf(t, running)
	for text, want := range refused(t, "refused_apps.txt") {
		ctx, end := newContext(t, text)
		_, err := loadApp(ctx)
		assert.ErrorIf(t, err == nil || !strings.Contains(err.Error(), want), "%s: got error %v, want one about %q", text, err, want)
		end()
		checkReferences(t, 2, 2) // of the running one
	}
}

func TestFailed_Provision_of_a_handler_releases_what_the_app_acquired(t *testing.T) {
	for text, want := range refused(t, "refused_handlers.txt") {
		ctx, end := newContext(t, nowhere)
		loadHandler(t, ctx, `{"policies":[{"limit":5,"window":"24h"}]}`)
		_, err := ctx.LoadModuleByID("http.handlers.redis_ratelimit", json.RawMessage(text))
		assert.ErrorIf(t, err == nil || !strings.Contains(err.Error(), want), "%s: got error %v, want one about %q", text, err, want)
		end()
		checkReferences(t, 0, 0)
	}
}

func TestCleanup_twice_releases_once(t *testing.T) {
	ctx, end := newContext(t, nowhere)
	other, endOther := newContext(t, nowhere)
	app := appOf(t, ctx)
	appOf(t, other)
	err := app.Cleanup()
	assert.ErrorIf(t, err != nil, "%v", err)
	end() // cleans up again
	checkReferences(t, 2, 2)
	endOther()
	checkReferences(t, 0, 0)
}

// TestApp_that_runs_is_the_newest_that_was_started_and_not_cleaned_up plays what Caddy does at reloads.
func TestApp_that_runs_is_the_newest_that_was_started_and_not_cleaned_up(t *testing.T) {
	load := func(text string) *App { return appOf(t, lastingContext(t, text)) }
	check := func(want *App, after string) {
		t.Helper()
		assert.ErrorIf(t, apps.newest() != want, "%s another app answers", after)
	}
	start := func(a *App) {
		assert.Must(t, a.Start())
	}
	cleanUp := func(a *App) {
		assert.Must(t, a.Cleanup())
	}
	first, failing, validated, second := load(""), load(`{"memory":{"max_keys":1}}`), load(""), load("")
	start(first)
	check(first, "after the start")
	cleanUp(validated)
	check(first, "after a configuration that was never started")
	start(failing)
	check(failing, "while a configuration starts")
	cleanUp(failing)
	check(first, "after a start that failed")
	for i := range 3 { // which the failed one had no room for
		checks := []limiter.Check{{Policy: newHandler(t, policyJSON("bound", "5")).limiter.Rules.Rules[0].Policy, Key: limiter.EncodeKey(string(rune('a' + i)))}}
		if _, err := first.opened.Decide(t.Context(), checks); err != nil || first.opened.Memory.Store.Overflows() != 0 {
			t.Errorf("%d shares found no room, %v", first.opened.Memory.Store.Overflows(), err)
		}
	}
	start(second)
	cleanUp(first)
	check(second, "after a reload")
	cleanUp(second)
	check(nil, "after the last")
}

// TestApp_boundsBodies has the running app bound the bodies of the process, and the one before where a load fails.
func TestApp_boundsBodies(t *testing.T) {
	largest := func() (bytes int64) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
		for _, bytes = range []int64{8 << 20, 16 << 20, 64 << 20} {
			r.Body, r.ContentLength = io.NopCloser(io.LimitReader(zeros{}, bytes)), bytes
			got := bodies.Read(httptest.NewRecorder(), r, "192.0.2.1", requestbody.Bounds{Size: int(bytes), Within: time.Hour})
			assert.Must(t, r.Body.Close())
			if got.Result() != requestbody.Whole {
				return bytes
			}
		}
		return 0
	}
	first, small := appOf(t, lastingContext(t, "")), appOf(t, lastingContext(t, `{"memory":{"max_bodies":67108864}}`))
	assert.Must(t, first.Start())
	assert.Equal(t, largest(), 64<<20, "the body that has no room by default")
	assert.Must(t, small.Start())
	assert.Equal(t, largest(), 16<<20, "the body that has no room in 64 MiB")
	assert.Must(t, small.Cleanup())
	assert.Equal(t, largest(), 64<<20, "the body that has no room after a load that failed")
	assert.Equal(t, bodies.Held(), 0, "held")
}

// zeros is an endless body.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// newContext is a configuration with this app, or none where it is empty, and what ends it.
func newContext(t testing.TB, app string) (ctx caddy.Context, end func()) {
	t.Helper()
	config := new(caddy.Config)
	base := assert.NoError(caddy.ProvisionContext(config))(t)
	if app != "" { // loaded at its first use, so that this context cleans it up
		config.AppsRaw = caddy.ModuleMap{options.AppName: json.RawMessage(app)}
	}
	return caddy.NewContext(base)
}

// lastingContext is a [newContext] that ends with the test.
func lastingContext(t testing.TB, app string) caddy.Context {
	t.Helper()
	ctx, end := newContext(t, app)
	t.Cleanup(end)
	return ctx
}

// newHandler provisions a handler, which is cleaned up with the test.
func newHandler(t testing.TB, handler string) *Handler {
	t.Helper()
	return loadHandler(t, lastingContext(t, ""), handler)
}

func loadHandler(t testing.TB, ctx caddy.Context, handler string) *Handler {
	t.Helper()
	module := assert.NoError(ctx.LoadModuleByID("http.handlers.redis_ratelimit", json.RawMessage(handler)))(t)
	h, ok := module.(*Handler)
	assert.FatalIf(t, !ok, "the module is a %T", module)
	return h
}

// refused reads a file of testdata: a configuration a line, and behind a tab what its error says.
func refused(t testing.TB, file string) map[string]string {
	t.Helper()
	text := assert.NoError(os.ReadFile("testdata/" + file))(t)
	errorOf := map[string]string{}
	for line := range strings.Lines(string(text)) {
		configuration, says, found := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		assert.FatalIf(t, !found || says == "" || errorOf[configuration] != "", "%s has the line %q", file, line)
		errorOf[configuration] = says
	}
	return errorOf
}

// policyJSON is a handler of one policy that no test waits for.
func policyJSON(name, limit string) string {
	return `{"policies":[{"name":"` + name + `","limit":` + limit + `,"window":"24h"}]}`
}

// serve runs handlers one around the other, the last one inside, on a real server, which answers
// errors the way that Caddy does without error routes.
func serve(t testing.TB, inside caddyhttp.HandlerFunc, handlers ...*Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, &caddyhttp.Server{})
		if err := chain(handlers, inside).ServeHTTP(w, r); err != nil {
			status := http.StatusInternalServerError
			if coded := (caddyhttp.HandlerError{}); errors.As(err, &coded) && coded.StatusCode != 0 {
				status = coded.StatusCode
			}
			w.WriteHeader(status)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// chain makes one handler of many.
func chain(handlers []*Handler, inside caddyhttp.Handler) caddyhttp.Handler {
	for i := len(handlers) - 1; i >= 0; i-- {
		h, next := handlers[i], inside
		inside = caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error { return h.ServeHTTP(w, r, next) })
	}
	return inside
}
