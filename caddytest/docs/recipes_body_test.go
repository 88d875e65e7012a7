package docs

import (
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// This file plays the recipes whose keys are values of the request's body.

const (
	ofJSON = "Content-Type: application/json"
	ofForm = "Content-Type: application/x-www-form-urlencoded"
)

const recipeAccount = "bob@example.com"

// logIn sends a password of the one account that most tests use.
func (e recipeEnv) logIn(t *testing.T, password string) caddytest.Response {
	t.Helper()
	return e.logInAs(t, recipeAccount, password)
}

// logInAs sends a password of an account.
func (e recipeEnv) logInAs(t *testing.T, account, password string) caddytest.Response {
	t.Helper()
	return e.Send(t, http.MethodPost, e.URL+"/login", "email="+account+"&password="+password, ofForm)
}

// from returns the same Caddy for a client at another address of this machine.
func (e recipeEnv) from(address string) recipeEnv {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	node, client := *e.Node, *e.Client
	client.Transport = &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}
	node.Client = &client
	return recipeEnv{&node, e.backend}
}

func recipeLogIn(t *testing.T, e recipeEnv) {
	for left := int64(4); left >= 0; left-- {
		caddytest.CheckQuota(t, e.logIn(t, "right").Want(t, http.StatusOK, caddytest.Any), 5, left+1)
		e.WaitForRefund(t, "failed-logins", "127.0.0.1", left+1)
		caddytest.CheckQuota(t, e.logIn(t, "guess").Want(t, http.StatusUnauthorized, caddytest.Any), 5, left)
	}
	caddytest.CheckRefusal(t, e.logIn(t, "guess"), http.StatusTooManyRequests)
	caddytest.CheckRefusal(t, e.logIn(t, "right"), http.StatusTooManyRequests)
	e.Get(t, "/login").WantFree(t)
	e.operate(t, "Log-in protection", "reset")
	recipeBan(t, e)
	e.checkAccounts(t)
}

// checkAccounts has a swarm try passwords of one account, in all ways to write it, until no address may try more.
func (e recipeEnv) checkAccounts(t *testing.T) {
	t.Helper()
	tries := 0
	guess := func(account string) caddytest.Response {
		tries++
		return e.from(fmt.Sprint("127.0.1.", tries)).logInAs(t, account, "guess")
	}
	spellings := []string{"dave@example.com", "Dave%40Example.com", "+dave@example.com+", "d%C3%A1ve@example.com", "dave%E2%80%8B@example.com"}
	for i := range 10 {
		guess(spellings[i%len(spellings)]).Want(t, http.StatusUnauthorized, caddytest.Any)
	}
	caddytest.CheckQuota(t, caddytest.CheckRefusal(t, guess("dave@example.com"), http.StatusTooManyRequests), 10, 0)
	caddytest.CheckRefusal(t, e.from("127.0.2.1").logInAs(t, "DAVE@example.com", "right"), http.StatusTooManyRequests)
	e.logInAs(t, "erin@example.com", "right").Want(t, http.StatusOK, caddytest.Any)
	for _, hidden := range []struct {
		path, body, contentType string
		status                  int
	}{
		{"/login", "email=erin@example.com&email=dave@example.com&password=guess", ofForm, http.StatusBadRequest},
		{"/login", "email[first]=dave@example.com&password=guess", ofForm, http.StatusBadRequest},
		{"/login", "password=guess", ofForm, http.StatusBadRequest},
		{"/login?email=dave@example.com", "email=erin@example.com&password=guess", ofForm, http.StatusBadRequest},
		{"/login", `{"email":"dave@example.com","password":"guess"}`, ofJSON, http.StatusUnsupportedMediaType},
		{"/login", "email=dave@example.com&password=guess", "Content-Type: text/plain", http.StatusUnsupportedMediaType},
	} {
		a := e.Send(t, http.MethodPost, e.URL+hidden.path, hidden.body, hidden.contentType)
		assert.ErrorIf(t, a.Status != hidden.status, "%s: got %v; want status %d", hidden.body, a, hidden.status)
	}
	e.WaitForRefund(t, "failed-logins", "127.0.0.1", 5) // what was refused is no wrong password
}

// recipeLogInByJSON tries passwords of one account, which a log-in by JSON finds wrong.
func recipeLogInByJSON(t *testing.T, e recipeEnv) {
	guess := func(try int, body, contentType string) caddytest.Response {
		from := e.from(fmt.Sprint("127.0.1.", try))
		return from.Send(t, http.MethodPost, e.URL+"/login", body, contentType)
	}
	for i := range 10 {
		guess(i, `{"password":"guess", "email":"Bob@\u0065xample.com"}`, ofJSON).Want(t, http.StatusUnauthorized, caddytest.Any)
	}
	caddytest.CheckRefusal(t, guess(11, `{"email":"bob@example.com"}`, ofJSON), http.StatusTooManyRequests)
	guess(12, `{"email":"bob@example.com","Email":"eve@example.com"}`, ofJSON).Want(t, http.StatusBadRequest, caddytest.Any)
	guess(13, "email=bob@example.com", ofForm).Want(t, http.StatusUnsupportedMediaType, caddytest.Any)
}
