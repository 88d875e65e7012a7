package docs

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// clientTests play the Caddyfiles of docs/clients.md with the requests that its clients send, by heading.
var clientTests = map[string]func(*testing.T, recipeEnv){
	"Forms":                    clientForms,
	"Images":                   clientImages,
	"Git":                      clientGit,
	"Object storage":           clientObjects,
	"Pages and browsers":       clientPrefetches,
	"Resumable uploads":        clientUploads,
	"Sessions and replication": clientSessions,
	"Monitoring":               clientSamples,
	"ACME":                     clientOrders,
}

func TestClients(t *testing.T) {
	t.Parallel()
	playSections(t, "docs/clients.md", clientTests, func(t *testing.T, r recipe, run func(*testing.T, recipeEnv)) {
		t.Helper()
		onRecipe(t, r.caddyfiles[0], run)
	})
}

// playSections plays the sections of a page that have a Caddyfile, each with its test, by heading. A section has one Caddyfile.
func playSections[T any](t *testing.T, page string, tests map[string]T, play func(*testing.T, recipe, T)) {
	t.Helper()
	played := 0
	for _, r := range parseRecipes(caddytest.ReadFile(t, page)) {
		if len(r.caddyfiles) == 0 {
			continue
		}
		played++
		t.Run(r.heading, func(t *testing.T) {
			t.Parallel()
			test, found := tests[r.heading]
			assert.FatalIf(t, !found || len(r.caddyfiles) != 1, "the section has no test, or not one Caddyfile")
			play(t, r, test)
		})
	}
	assert.ErrorIf(t, played != len(tests), "%d sections with a Caddyfile, %d tests", played, len(tests))
}

// clientUploads sends more parts at once than may wait: some are refused so that their client goes on. HEAD has a limit of its own.
func clientUploads(t *testing.T, e recipeEnv) {
	const tus = "Tus-Resumable: 1.0.0"
	clients := 0
	assert.Retry(t, "some parts are refused", func() (again bool, seen any) { // of the next client, if a busy machine sent them too slowly
		clients++
		client, refused := e.from(fmt.Sprint("127.0.6.", clients)), 0
		var parts sync.WaitGroup
		answers := make(chan caddytest.Response, 40)
		for range cap(answers) {
			parts.Go(func() { answers <- client.Send(t, http.MethodPatch, e.URL+"/files/1", "part", tus, "Upload-Offset: 0") })
		}
		parts.Wait()
		close(answers)
		for a := range answers {
			if a.Status != http.StatusOK {
				caddytest.CheckRefusal(t, a, http.StatusServiceUnavailable)
				refused++
			}
		}
		assert.ErrorIf(t, refused > 19, "%d of 40 parts were refused", refused)
		return refused == 0, refused
	})
	e.Send(t, http.MethodHead, e.URL+"/files/1", "", tus).Want(t, http.StatusOK, "")
}

// clientSessions begins sessions until one is refused, while those that go on are free, and replicates until that is refused as
// CouchDB says so.
func clientSessions(t *testing.T, e recipeEnv) {
	e.spend(t, 60, 60*minutely, "/socket.io/?EIO=4&transport=polling&t=1")
	for range 3 {
		e.Get(t, "/socket.io/?EIO=4&transport=polling&sid=abc").WantFree(t)
		e.Send(t, http.MethodPost, e.URL+"/socket.io/?EIO=4&transport=polling&sid=abc", "42[]").WantFree(t)
	}
	e.spend(t, 600, 600*minutely, "/db/_changes")
	const json = "Accept: application/json"
	refused := e.Get(t, "/db/_changes?since=0", json)
	caddytest.CheckRefusal(t, refused, http.StatusTooManyRequests)
	assert.ErrorIf(t, !strings.HasPrefix(refused.Body, `{"error":"rate_limit_exceeded","reason":"Too many requests. Try again in `), "got %v", refused)
	for _, path := range []string{"/db/", "/db/_local/1", "/db/_bulk_get"} {
		e.Get(t, path, json).WantFree(t)
	}
}

// clientForms is refused as each client, whatever the error route says.
func clientForms(t *testing.T, e recipeEnv) {
	e.spend(t, 100, 100*minutely, "/api/")
	for name, test := range map[string]struct {
		status     int
		kind, body string
		headers    []string
	}{
		"text":        {429, "text/plain; charset=utf-8", "Too many requests. Try again in ", nil},
		"JSON":        {429, "application/json", `"error":{"type":"rate_limit_error"`, []string{"Accept: application/json"}},
		"Connect":     {429, "application/json", `"code":"resource_exhausted"`, []string{"Connect-Protocol-Version: 1"}},
		"S3":          {429, "application/xml", "<Code>SlowDown</Code>", []string{"Authorization: AWS4-HMAC-SHA256 Credential=AKIA/20261127/eu-central-1/s3/aws4_request, Signature=0"}},
		"EventSource": {200, "text/event-stream", "retry:", []string{"Accept: text/event-stream", "Cache-Control: no-cache", "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty"}},
	} {
		a := e.Get(t, "/api/", test.headers...)
		kind := a.Header.Get("Content-Type")
		assert.ErrorIf(t, a.Status != test.status || kind != test.kind || !strings.Contains(a.Body, test.body), "%s: got %v", name, a)
	}
}

// clientImages pulls until a pull is refused, for a second.
func clientImages(t *testing.T, e recipeEnv) {
	_, refusal := e.spend(t, 50, 10, "/v2/lab/img/manifests/latest")
	wait := retryAfter(t, refusal)
	assert.ErrorIf(t, wait != 1, "got %v; want a wait of a second, which every client believes", refusal)
	assert.ErrorIf(t, !strings.Contains(refusal.Body, `"errors":[{"code":"TOOMANYREQUESTS"`), "got %v; want the errors of a registry", refusal)
}

// clientGit clones: each clone counts once.
func clientGit(t *testing.T, e recipeEnv) {
	clone := func() caddytest.Response {
		for range 2 {
			e.Send(t, http.MethodPost, e.URL+"/lab.git/git-upload-pack", "").WantFree(t)
			e.Send(t, http.MethodPost, e.URL+"/lab.git/git-receive-pack", "").WantFree(t)
		}
		return e.Get(t, "/lab.git/info/refs?service=git-upload-pack")
	}
	caddytest.CheckQuota(t, clone(), 10, 9)
	_, refusal := e.spend(t, 9, 1, "/lab.git/info/refs?service=git-upload-pack")
	kind := refusal.Header.Get("Content-Type")
	assert.ErrorIf(t, !strings.HasPrefix(kind, "text/plain") || !strings.HasPrefix(refusal.Body, "Too many requests."), "got %v; want the line that git prints", refusal)
}

func clientObjects(t *testing.T, e recipeEnv) {
	e.spend(t, 600, 10, "/a.txt")
	for range 3 {
		e.Send(t, http.MethodHead, e.URL+"/a.txt", "").WantFree(t) // a refused one is a deleted file
	}
}

// clientPrefetches leaves half of a quota for visits.
func clientPrefetches(t *testing.T, e recipeEnv) {
	for left := int64(29); left >= 0; left-- {
		a := e.Get(t, "/", "Sec-Purpose: prefetch;prerender")
		if left > 0 {
			caddytest.CheckQuota(t, a, 60, left)
		}
	}
	refusal := e.Get(t, "/", "Sec-Purpose: prefetch")
	for refusal.Status == http.StatusOK { // a unit has flowed back
		refusal = e.Get(t, "/", "Sec-Purpose: prefetch")
	}
	caddytest.CheckRefusal(t, refusal, http.StatusServiceUnavailable)
	visited, refused := 0, caddytest.Response{}
	for refused.Status != http.StatusTooManyRequests {
		refused = e.Get(t, "/")
		visited++
	}
	caddytest.CheckRefusal(t, refused, http.StatusTooManyRequests)
	assert.ErrorIf(t, visited < 30, "%d visits passed, want the other half", visited)
}

func clientSamples(t *testing.T, e recipeEnv) {
	write := func() caddytest.Response {
		return e.Send(t, http.MethodPost, e.URL+"/api/v1/write", "samples", "X-Prometheus-Remote-Write-Version: 0.1.0")
	}
	a, passed := write(), 0
	for ; a.Status == http.StatusOK; a = write() {
		passed++
	}
	caddytest.CheckRefusal(t, a, http.StatusServiceUnavailable)
	assert.ErrorIf(t, passed < 60, "%d writes passed, want 60", passed)
	e.Get(t, "/api/v1/query").WantFree(t)
}

// clientOrders leaves what certificates are ordered with besides POST alone: their refusals have no reason.
func clientOrders(t *testing.T, e recipeEnv) {
	e.Get(t, "/acme/directory").WantFree(t)
	e.Send(t, http.MethodHead, e.URL+"/acme/new-nonce", "").WantFree(t)
	order := func() caddytest.Response {
		return e.Send(t, http.MethodPost, e.URL+"/acme/new-order", "{}", "Content-Type: application/jose+json")
	}
	caddytest.CheckQuota(t, order(), 300, 299)
	refusal := order()
	for refusal.Status == http.StatusOK {
		refusal = order()
	}
	caddytest.CheckRefusal(t, refusal, http.StatusTooManyRequests).Want(t, 0, caddytest.Any, "Content-Type: application/problem+json")
	assert.ErrorIf(t, !strings.Contains(refusal.Body, `"urn:ietf:params:acme:error:rateLimited"`), "got %v; want the reason", refusal)
}
