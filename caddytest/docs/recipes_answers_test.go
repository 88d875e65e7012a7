package docs

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// recipeFormAgain tries passwords at forms that are shown again after a wrong one.
func recipeFormAgain(t *testing.T, e recipeEnv) {
	try := func(path, password string, want int) {
		t.Helper()
		form := "Content-Type: application/x-www-form-urlencoded"
		e.Send(t, http.MethodPost, e.URL+path, "password="+password, form).Want(t, want, caddytest.Any)
	}
	for range 3 {
		try("/wp-login.php", "right", http.StatusFound)
		e.Get(t, "/wp-login.php").WantFree(t)
	}
	e.WaitForRefund(t, "failed-logins", "127.0.0.1", 5)
	for range 2 {
		try("/wp-login.php", "guess", http.StatusOK)
	}
	for _, form := range []string{"/admin/login/", "/users/sign_in", "/users/sign_in"} {
		try(form, "guess", http.StatusOK)
	}
	try("/admin/login/", "guess", http.StatusTooManyRequests)
	try("/wp-login.php", "right", http.StatusTooManyRequests)
	e.spend(t, 10, 10*minutely, "/xmlrpc.php")
}

// recipeHangUp goes on after denials until the connection is closed without an answer.
func recipeHangUp(t *testing.T, e recipeEnv) {
	_, refusal := e.spend(t, 100, 100*minutely, "/")
	wait := "Too many requests. Try again in "
	assert.ErrorIf(t, !strings.HasPrefix(refusal.Body, wait), "got %v; want %s", refusal, wait)
	assert.Retry(t, "the client is banned", func() (again bool, seen any) {
		a, err := e.Try(http.MethodGet, e.URL+"/", "")
		return err == nil, a
	})
	output := e.Ratelimit(t, "bans", "--policy", "site").Stdout
	assert.ErrorIf(t, !strings.Contains(output, "127.0.0.1"), "got %s; want the client banned", output)
}

// recipePages asks for files, which are free, and for pages.
func recipePages(t *testing.T, e recipeEnv) {
	for _, file := range []string{"/app.js", "/style.css?v=2", "/assets/a/b", "/static/x.html", "/logo.SVG"} {
		e.Get(t, file).WantFree(t)
	}
	caddytest.CheckQuota(t, e.Get(t, "/report?x=.css"), 60, 59)
	e.spend(t, 59, 60*minutely, "/")
}

// recipeRefusalPage is refused as a browser and as a program.
func recipeRefusalPage(t *testing.T, e recipeEnv) {
	e.spend(t, 100, 100*minutely, "/")
	page := e.Get(t, "/", "Accept: text/html,application/xhtml+xml,*/*;q=0.8")
	caddytest.CheckRefusal(t, page, http.StatusTooManyRequests)
	kind, text := page.Header.Get("Content-Type"), "<p>That was a lot of requests. The page works again in "
	assert.ErrorIf(t, kind != "text/html; charset=utf-8" || !strings.Contains(page.Body, text), "got %v; want the page", page)
	line := e.Get(t, "/", "Accept: */*")
	caddytest.CheckRefusal(t, line, http.StatusTooManyRequests)
	assert.ErrorIf(t, !strings.HasPrefix(line.Body, "Too many requests. Try again in "), "got %v; want a line", line)
}

// recipeAsked asks for the requests of two clients of another server.
func recipeAsked(t *testing.T, e recipeEnv) {
	const first, second = "X-Forwarded-For: 203.0.113.1", "X-Forwarded-For: 203.0.113.2"
	for left := int64(99); left >= 0; left-- {
		if a := e.Get(t, "/", first); a.Status != http.StatusNoContent {
			assert.ErrorIf(t, left > 0, "got %v with %d requests left", a, left)
		}
	}
	refusal := e.Get(t, "/", first)
	for refusal.Status == http.StatusNoContent { // a unit has flowed back
		refusal = e.Get(t, "/", first)
	}
	caddytest.CheckRefusal(t, refusal, http.StatusForbidden)
	caddytest.CheckQuota(t, e.Get(t, "/", second).Want(t, http.StatusNoContent, caddytest.Any), 100, 99)
}

// recipeMirror fetches as many files at once as the queue of a client holds, and then too many.
func recipeMirror(t *testing.T, e recipeEnv) {
	begin := time.Now()
	for _, a := range e.Crowd(t, 30, "/pool/a.deb") {
		a.Want(t, http.StatusOK, caddytest.Any)
	}
	took := time.Since(begin)
	assert.ErrorIf(t, took < 2800*time.Millisecond, "30 files took %v, want one each 100 ms", took)
	for refused := false; !refused; {
		for _, a := range e.Crowd(t, 80, "/pool/b.deb") {
			if a.Status != http.StatusOK {
				refused = true
				caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
			}
			assert.ErrorIf(t, a.Took > 8*time.Second, "%v took %v, want at most 5s", a, a.Took)
		}
	}
}
