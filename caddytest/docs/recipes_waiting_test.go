package docs

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// This file plays recipes whose requests wait for a place.

// siteRoot returns a folder with a file that a site serves itself.
func siteRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, file := range []string{"style.css", "index.php", "wp-login.php", "wp-cron.php", "xmlrpc.php"} {
		assert.Must(t, os.WriteFile(filepath.Join(root, file), []byte("h1 {}"), 0o600))
	}
	return root
}

// send sends a request, which may wait, and returns where its answer arrives.
func (e recipeEnv) send(t *testing.T, method, path string, headers ...string) <-chan caddytest.Response {
	t.Helper()
	answers := make(chan caddytest.Response, 1)
	go func() {
		defer close(answers)
		answer, err := e.Try(method, e.URL+path, "{}", headers...)
		if err != nil {
			t.Error(err)
		}
		answers <- answer
	}()
	return answers
}

// fill sends requests until the backend runs so many.
func (e recipeEnv) fill(t *testing.T, places int, method, path string, headers ...string) (answers []<-chan caddytest.Response) {
	t.Helper()
	for range places {
		answers = append(answers, e.send(t, method, path, headers...))
	}
	e.backend.holder.WaitRunning(t, places)
	return answers
}

// wait sends a request, and returns once so many wait.
func (e recipeEnv) wait(t *testing.T, waiting float64, method, path string, headers ...string) <-chan caddytest.Response {
	t.Helper()
	answer := e.send(t, method, path, headers...)
	e.CheckMetric(t, "held_requests", waiting)
	return answer
}

// endAll ends all requests, and checks that they passed and that the backend never had more than its places.
func (e recipeEnv) endAll(t *testing.T, places int, answers []<-chan caddytest.Response) {
	t.Helper()
	e.backend.holder.EndAll()
	for _, answer := range answers {
		(<-answer).Want(t, http.StatusOK, caddytest.Any)
	}
	_, most := e.backend.holder.Running()
	assert.ErrorIf(t, most != places, "the backend ran %d requests at once, want %d", most, places)
	e.CheckMetric(t, `wait_seconds_count{outcome="started"}`, float64(len(answers)))
}

// recipeModel has one call of a customer wait beside many of another, which began before.
func recipeModel(t *testing.T, e recipeEnv) {
	const acme, bolt, call = "Authorization: Bearer key-of-acme", "Authorization: Bearer key-of-bolt", "/v1/embeddings"
	e.Send(t, http.MethodPost, e.URL+call, "{}", "Authorization: Bearer invented").Want(t, http.StatusUnauthorized, caddytest.Any)
	answers := e.fill(t, 8, http.MethodPost, call+"?hold", acme)
	for waiting := range 3 {
		answers = append(answers, e.wait(t, float64(waiting+1), http.MethodPost, call+"?hold", acme))
	}
	short := e.wait(t, 4, http.MethodPost, call, bolt)
	e.Get(t, "/v1/models", acme).WantFree(t)
	e.backend.holder.EndOne() // acme's turn
	e.CheckMetric(t, "held_requests", 3)
	e.backend.holder.EndOne() // bolt's, whose call ends at once: then acme's
	answer := <-short
	answer.Want(t, http.StatusOK, caddytest.Any)
	e.CheckMetric(t, "held_requests", 1)
	ended := make(chan caddytest.Response, 1)
	ended <- answer
	e.endAll(t, 8, append(answers, ended))
}

func recipePHP(t *testing.T, e recipeEnv) {
	answers := e.fill(t, 20, http.MethodGet, "/?hold")
	answers = append(answers, e.wait(t, 1, http.MethodGet, "/blog/article?hold"))
	e.Get(t, "/style.css").WantFree(t)
	e.backend.holder.EndOne()
	e.CheckMetric(t, "held_requests", 0)
	e.endAll(t, 20, answers)
}

func recipeFiles(t *testing.T, e recipeEnv) {
	answers := e.fill(t, 4, http.MethodGet, "/pool/a.deb?hold")
	for waiting := range 6 {
		answers = append(answers, e.wait(t, float64(waiting+1), http.MethodGet, "/pool/b.deb?hold"))
	}
	e.endAll(t, 4, answers)
}

// recipeFilesInVain has a request wait longer than it may.
func recipeFilesInVain(t *testing.T, e recipeEnv) {
	answers := e.fill(t, 4, http.MethodGet, "/pool/a.deb?hold")
	refused := caddytest.CheckRefusal(t, e.Get(t, "/pool/b.deb"), http.StatusTooManyRequests)
	assert.ErrorIf(t, refused.Header.Get("Retry-After") != "1", "got %v, want a hint of a second", refused)
	e.CheckMetric(t, `wait_seconds_count{outcome="timeout"}`, 1)
	e.endAll(t, 4, answers)
}
