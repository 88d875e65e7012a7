package docs

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// tryForm sends a password to a form.
func (e recipeEnv) tryForm(t *testing.T, path, password string, want int) {
	t.Helper()
	e.Send(t, http.MethodPost, e.URL+path, "password="+password, ofForm).Want(t, want, caddytest.Any)
}

// recipeFormAgain tries passwords at forms that are shown again after a wrong one.
func recipeFormAgain(t *testing.T, e recipeEnv) {
	for range 3 {
		e.tryForm(t, "/admin/login/", "right", http.StatusFound)
		e.Get(t, "/admin/login/").WantFree(t)
	}
	e.WaitForRefund(t, "failed-logins", "127.0.0.1", 5)
	for _, form := range []string{"/admin/login/", "/admin/login", "/Admin/Login//", "/users/sign_in", "/users/sign_in.json"} {
		e.tryForm(t, form, "guess", http.StatusOK)
	}
	for _, form := range []string{"/admin/login/", "/users/sign_in/", "//users/sign_in;x"} {
		e.tryForm(t, form, "guess", http.StatusTooManyRequests)
	}
	e.tryForm(t, "/admin/login/", "right", http.StatusTooManyRequests)
}

// recipeServerAction tries passwords by a server action, at its page and elsewhere, and by the form.
func recipeServerAction(t *testing.T, e recipeEnv) {
	const action = "Next-Action: 40a1"
	log := func(path, password string, want int) {
		t.Helper()
		e.Send(t, http.MethodPost, e.URL+path, "password="+password, ofForm, action).Want(t, want, caddytest.Any)
	}
	for range 3 {
		log("/login", "right", http.StatusOK)
		e.Send(t, http.MethodPost, e.URL+"/login", "then=/&password=right", ofForm).Want(t, http.StatusSeeOther, caddytest.Any)
		e.Get(t, "/login", action).WantFree(t)
	}
	e.WaitForRefund(t, "failed-logins", "127.0.0.1", 5)
	for _, path := range []string{"/login", "/", "/nothing"} {
		log(path, "guess", http.StatusOK)
	}
	for _, path := range []string{"/login", "//login/"} {
		e.tryForm(t, path, "guess", http.StatusUnauthorized)
	}
	for _, path := range []string{"/login", "/x1", "/x2"} {
		log(path, "guess", http.StatusTooManyRequests)
	}
	e.tryForm(t, "/login", "guess", http.StatusTooManyRequests)
	e.Send(t, http.MethodPost, e.URL+"/orders", "", ofForm).WantFree(t)
}

// recipeBatchedLogIn tries passwords by calls of tRPC, alone and in batches.
func recipeBatchedLogIn(t *testing.T, e recipeEnv) {
	post := func(path string, want int) {
		t.Helper()
		e.Send(t, http.MethodPost, e.URL+path, "{}", "Content-Type: application/json").Want(t, want, caddytest.Any)
	}
	batches := []string{
		"/trpc/track,login?batch=1", "/trpc/track%2Clogin?batch=1", "/trpc/login,login?batch=1", "/trpc/login%2clogin?batch=1",
		"/trpc/track,%6cogin?batch=1", "/trpc//track,login?batch=1", "/trpc/x/../track,login?batch=1",
	}
	for _, path := range batches {
		post(path, http.StatusBadRequest)
	}
	post("/trpc/track,save?batch=1", http.StatusOK)
	for _, path := range []string{"/trpc/login", "/trpc/login?batch=1", "/trpc//login", "/trpc/%6cogin", "/trpc/login/"} {
		post(path, http.StatusOK)
	}
	post("/trpc/login", http.StatusTooManyRequests)
	post("/trpc/login?batch=1", http.StatusTooManyRequests)
	e.Send(t, http.MethodPost, e.URL+"/trpc/track", "{}").WantFree(t)
	before := len(e.backend.seen())
	post("/1234/login", http.StatusOK) // of Caddy, which has nothing there
	assert.Equal(t, len(e.backend.seen()), before, "requests at the backend")
}

// recipeWordPress tries passwords by form, however PHP takes its path, and by the other doors.
func recipeWordPress(t *testing.T, e recipeEnv) {
	for range 3 {
		e.tryForm(t, "/wp-login.php", "right", http.StatusFound)
	}
	e.WaitForRefund(t, "failed-logins", "127.0.0.1", 5)
	for _, form := range []string{"/wp-login.php", "/wp-login.php/", "/wp-login.php/x", "//wp-login.php", "/wp-login.php/x.css"} {
		e.tryForm(t, form, "guess", http.StatusOK)
	}
	e.tryForm(t, "/wp-login.php/y.css", "guess", http.StatusTooManyRequests)
	e.tryForm(t, "/wp-login.php", "right", http.StatusTooManyRequests)
	xmlrpc := 0
	for _, door := range []string{"/xmlrpc.php", "/xmlrpc.php/x", "//xmlrpc.php", "/xmlrpc.php/x.png"} {
		for range 4 {
			if e.Send(t, http.MethodPost, e.URL+door, "<methodCall/>", "Content-Type: text/xml").Status == http.StatusOK {
				xmlrpc++
			}
		}
	}
	assert.Equal(t, xmlrpc, 10, "requests to xmlrpc.php")
	cron := 0
	for i := range 14 {
		if e.from(fmt.Sprint("127.0.3.", i+1)).Get(t, "/wp-cron.php").Status == http.StatusOK {
			cron++
		}
	}
	assert.Equal(t, cron, 10, "requests to wp-cron.php from all addresses")
	e.Get(t, "/style.css").WantFree(t)
	php := e.from("127.0.4.1")
	for i, path := range []string{"/?rest_route=/wp/v2/users", "/index.php/style.css", "/none.css?rest_route=/wp/v2/users", "/style.css/x"} {
		caddytest.CheckQuota(t, php.Get(t, path), 300, int64(299-i))
	}
}

// recipeBasic guesses passwords that Caddy asks for.
func recipeBasic(t *testing.T, e recipeEnv) {
	basic := func(user, password string) string {
		return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	for range 8 {
		e.Get(t, "/").Want(t, http.StatusUnauthorized, caddytest.Any) // asks for a password
	}
	for i := range 5 {
		e.Get(t, "/", basic("alice", fmt.Sprint("guess ", i))).Want(t, http.StatusUnauthorized, caddytest.Any)
	}
	caddytest.CheckRefusal(t, e.Get(t, "/", basic("alice", "guess")), http.StatusTooManyRequests)
	e.Get(t, "/").Want(t, http.StatusUnauthorized, caddytest.Any)
	for i := range 5 { // of another address, in other letters
		e.from(fmt.Sprint("127.0.1.", i+1)).Get(t, "/", basic("Alice", fmt.Sprint("guess ", i))).Want(t, http.StatusUnauthorized, caddytest.Any)
	}
	caddytest.CheckRefusal(t, e.from("127.0.1.9").Get(t, "/", basic("ALICE", "guess")), http.StatusTooManyRequests)
	e.from("127.0.1.10").Get(t, "/", "Authorization: Bearer abc").Want(t, http.StatusUnauthorized, caddytest.Any)
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
	assert.Retry(t, "some of 80 files are refused, and the others take at most 5s", func() (again bool, seen any) {
		refused, slowest := false, time.Duration(0)
		for _, a := range e.Crowd(t, 80, "/pool/b.deb") {
			if a.Status != http.StatusOK {
				refused = true
				caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
			}
			slowest = max(slowest, a.Took)
		}
		return !refused || slowest > 8*time.Second, fmt.Sprintf("refused: %t, the slowest took %v", refused, slowest)
	})
}
