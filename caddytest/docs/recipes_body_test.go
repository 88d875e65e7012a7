package docs

import (
	"fmt"
	"net"
	"net/http"
	"strings"
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
	return recipeEnv{&node, e.backend, e.inbox, e.waits}
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

// event sends an event, which the backend repeats.
func (e recipeEnv) event(t *testing.T, body string) caddytest.Response {
	t.Helper()
	return e.Send(t, http.MethodPost, e.URL+"/hooks/orders", body, ofJSON)
}

func recipeEvents(t *testing.T, e recipeEnv) {
	for i, event := range []string{
		`{"type":"order.paid","account":{"id":"acct_17"}}`,
		"{\n\t\"account\": {\"name\": \"\\\"id\\\":\\\"acct_18\\\"\", \"id\": \"acct_\\u0031\\u0037\"}\n}\n",
		`{"data":{"account":{"id":"acct_18"}},"account":{"id":"acct_17"}}`,
	} {
		caddytest.CheckQuota(t, e.event(t, event).Want(t, http.StatusOK, event), 600, int64(599-i))
	}
	for i, event := range []string{`{"account":{"id":18}}`, `{"account":{"id":"18"}}`} { // one tenant
		caddytest.CheckQuota(t, e.event(t, event).Want(t, http.StatusOK, event), 600, int64(599-i))
	}
	for _, event := range []string{`{}`, `{"account":null}`, `{"account":"acct_17"}`, `{"account":{"id":"acct_17","id":"acct_18"}}`, `[{"account":{"id":"acct_17"}}]`, `{"account":`} {
		e.event(t, event).Want(t, http.StatusBadRequest, caddytest.Any, caddytest.NoQuota)
	}
	e.Get(t, "/hooks/orders").WantFree(t)
}

// recipeCalls sends calls alone, in batches, and where a batch may be hidden.
func recipeCalls(t *testing.T, e recipeEnv) {
	const call = `{"jsonrpc":"2.0","id":1,"method":"add"}`
	send := func(key, contentType string, calls int) caddytest.Response {
		body := "[" + strings.Repeat(call+",", calls-1) + call + "]"
		if calls == 1 {
			body = call
		}
		return e.Send(t, http.MethodPost, e.URL+"/rpc", body, "X-Api-Key: "+key, contentType)
	}
	caddytest.CheckQuota(t, send("acme", ofJSON, 1), 100, 99)
	caddytest.CheckQuota(t, send("acme", ofJSON, 60), 100, 39)
	caddytest.CheckQuota(t, caddytest.CheckRefusal(t, send("acme", ofJSON, 40), http.StatusTooManyRequests), 100, 39)
	caddytest.CheckQuota(t, e.Send(t, http.MethodPost, e.URL+"/rpc", `[{"query":"{a}"},{"query":"{b}"}]`, "X-Api-Key: acme", ofJSON), 100, 37)
	caddytest.CheckQuota(t, send("bolt", "Content-Type: text/plain", 1), 100, 0)
	const largest = `*"detail":"Too many requests. 100 of 100 are left, this request may take 101. The largest one that can pass takes 100."*`
	send("carl", ofJSON, 101).Want(t, http.StatusTooManyRequests, largest, "Retry-After:")
	caddytest.CheckQuota(t, send("carl", ofJSON, 100), 100, 0)
	e.Get(t, "/rpc").Want(t, http.StatusBadRequest, caddytest.Any)
}

// rpc sends a message as clients of MCP do.
func (e recipeEnv) rpc(t *testing.T, user, message string) caddytest.Response {
	t.Helper()
	return e.Send(t, http.MethodPost, e.URL+"/mcp", message, ofJSON, "Accept: application/json, text/event-stream", "Authorization: Bearer "+user)
}

// recipeTools counts the calls of tools, in each client's order of members, and nothing else.
func recipeTools(t *testing.T, e recipeEnv) {
	for range 15 {
		for _, method := range []string{"initialize", "notifications/initialized", "tools/list", "server/discover"} {
			e.rpc(t, "acme", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"name":"search"}}`).WantFree(t)
		}
		e.rpc(t, "acme", `{"jsonrpc":"2.0","id":1,"result":{"method":"tools/call"}}`).WantFree(t) // an answer to the server
		e.Get(t, "/mcp").WantFree(t)
		e.Send(t, http.MethodDelete, e.URL+"/mcp", "").WantFree(t)
	}
	for i, call := range []string{
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"search"}}`,
		`{"method":"tools/call","params":{"name":"search"},"jsonrpc":"2.0","id":3}`,
		`{"m\u0065thod":"tools\/call","params":{"arguments":{"name":"fetch"},"name":"search"},"jsonrpc":"2.0","id":3}`,
	} {
		caddytest.CheckQuota(t, e.rpc(t, "acme", call), 10, int64(9-i))
	}
	for _, ambiguous := range []string{
		`[{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"search"}}]`,
		`{"jsonrpc":"2.0","id":2,"method":"ping","method":"tools/call","params":{"name":"search"}}`,
		`{"jsonrpc":"2.0","id":2,"Method":"tools/call","params":{"name":"search"}}`,
	} {
		a := e.rpc(t, "acme", ambiguous)
		isRefused := a.Status == http.StatusBadRequest || strings.Contains(a.Body, `"error":{"code":-32010`)
		assert.ErrorIf(t, !isRefused, "%s: got %v; want it refused", ambiguous, a)
	}
	e.checkTool(t)
}

// checkTool calls one tool until it is refused, then others until all are.
func (e recipeEnv) checkTool(t *testing.T) {
	t.Helper()
	call := func(user, tool string) caddytest.Response {
		return e.rpc(t, user, `{"jsonrpc":"2.0","id":"seven","method":"tools/call","params":{"name":"`+tool+`"}}`)
	}
	refused := func(a caddytest.Response) bool { return strings.Contains(a.Body, "isError") }
	passed := 3
	for !refused(call("acme", "search")) {
		passed++
		assert.FatalIf(t, passed > 20, "%d calls of a tool passed", passed)
	}
	assert.ErrorIf(t, passed < 10, "%d calls of a tool passed, want 10", passed)
	a := caddytest.CheckRefusal(t, call("acme", "search"), http.StatusOK)
	want := fmt.Sprintf(`{"jsonrpc":"2.0","id":"seven","result":{"resultType":"complete","isError":true,`+
		`"content":[{"type":"text","text":"Too many requests. Try again in %d seconds."}]}}`, retryAfter(t, a))
	want = strings.NewReplacer("in 1 seconds", "in 1 second", "in 60 seconds", "in 1 minute").Replace(want)
	assert.ErrorIf(t, a.Body != want, "got %v; want %s", a, want)
	caddytest.CheckQuota(t, call("acme", "fetch"), 60, 49) // another tool
	caddytest.CheckQuota(t, call("bolt", "search"), 10, 9)
	for i := 0; ; i++ {
		if a := call("acme", fmt.Sprint("tool", i)); refused(a) {
			passed += i + 1
			caddytest.CheckQuota(t, a, 60, 0)
			break
		}
		assert.FatalIf(t, i > 80, "%d tools could be called", i)
	}
	assert.ErrorIf(t, passed < 60, "%d calls passed, want 60", passed)
}
