package caddytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// Ask sends a request to the admin API of this module. The path begins after /redis_ratelimit/.
func (n *Node) Ask(t testing.TB, method, path, body string) Response {
	t.Helper()
	return n.Send(t, method, n.Admin+"/redis_ratelimit/"+path, body)
}

// Override sets or removes an override, or lifts bans, and checks the status of the response.
func (n *Node) Override(t testing.TB, status int, body string) Response {
	t.Helper()
	return n.Ask(t, http.MethodPost, "override", body).Want(t, status, Any)
}

// OverrideInRedis sets or removes an override, and again where a busy machine's Redis has answered too late, so that the override holds
// on the node alone.
func (n *Node) OverrideInRedis(t testing.TB, body string) {
	t.Helper()
	assert.Retry(t, "Redis has the override", func() (again bool, seen any) {
		a := n.Ask(t, http.MethodPost, "override", body)
		return a.Status != http.StatusOK || strings.Contains(a.Body, `"node_only":true`), a
	})
}

// ParseJSON parses a response of the admin API, whose Content-Type must be that of JSON.
func ParseJSON[T any](t testing.TB, a Response) (answered T) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.Body), &answered); err != nil || a.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%v, %v", a, err)
	}
	return answered
}

// State returns what the admin API tells of a key, as soon as its Redis answers.
func State[T any](t testing.TB, n *Node, policy, key string) T {
	t.Helper()
	question := assert.NoError(json.Marshal(map[string]string{"policy": policy, "key": key}))(t)
	var a Response
	assert.Retry(t, "Redis tells the state", func() (again bool, seen any) {
		a = n.Ask(t, http.MethodPost, "state", string(question))
		return a.Status != http.StatusOK, a
	})
	return ParseJSON[T](t, a)
}

// Remaining returns how many units a quota has left.
func (n *Node) Remaining(t testing.TB, policy, key string) int64 {
	t.Helper()
	return State[struct{ Remaining int64 }](t, n, policy, key).Remaining
}

// WaitForRefund waits until the quota has so many units again. On Redis no request waits for a refund, and
// the next request may overtake it.
func (n *Node) WaitForRefund(t testing.TB, policy, key string, remaining int64) {
	t.Helper()
	assert.Retry(t, "the unit is given back", func() (again bool, seen any) {
		left := n.Remaining(t, policy, key)
		return left != remaining, fmt.Sprintf("%d remain", left)
	})
}

// Explanation holds the tested fields of an explanation.
type Explanation struct {
	Decision string
	Policies []ExplainedPolicy
}

// ExplainedPolicy holds the tested fields of one policy of an explanation.
type ExplainedPolicy struct {
	Policy, Decision, Source string
	DryRun                   bool `json:"dry_run"`
	Limit, Remaining         int64
	Weight, Reserve          int64
	Reason                   string
	RetryAfter               float64 `json:"retry_after"`
}

// AwaitCrawler asks about requests of a client until it is known if it is the crawler that it claims to be: on a busy machine the
// DNS may take longer than a request waits.
func (n *Node) AwaitCrawler(t testing.TB, client, agent string) {
	t.Helper()
	question := `{"url":"` + n.URL + `/","client_ip":"` + client + `","headers":{"User-Agent":["` + agent + `"]}}`
	assert.Retry(t, client+" is known", func() (again bool, seen any) {
		a := n.Ask(t, http.MethodPost, "explain", question)
		known := ParseJSON[struct{ Crawler struct{ Status string } }](t, a)
		return known.Crawler.Status != "verified" && known.Crawler.Status != "forged", a
	})
}

// Explain explains a GET request of 127.0.0.1. The headers are JSON, empty for none.
func (n *Node) Explain(t *testing.T, path, headers string) Explanation {
	t.Helper()
	return n.ExplainFor(t, path, headers, "127.0.0.1")
}

// ExplainFor explains a GET request of another client address.
func (n *Node) ExplainFor(t *testing.T, path, headers, client string) Explanation {
	t.Helper()
	if headers == "" {
		headers = "{}"
	}
	return ParseJSON[Explanation](t, n.Ask(t, "POST", "explain", `{"url":"`+n.URL+path+`","client_ip":"`+client+`","headers":`+headers+`}`))
}
