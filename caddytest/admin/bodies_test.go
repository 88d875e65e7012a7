package admin

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

const (
	ofForm = "Content-Type: application/x-www-form-urlencoded"
	ofJSON = "Content-Type: application/json"
)

// accountLogin begins a directive that limits the accounts of a log-in form.
const accountLogin = `redis_ratelimit /login {
				name account
				key {form.email}
				on_empty_key reject
				limit 2
				window 24h`

// TestKeys_folded has operators name accounts as clients write them.
func TestKeys_folded(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		n := caddytest.Start(t, caddytest.Config(option, `
			`+accountLogin+`
				ban 1h
			}
			redis_ratelimit /user {
				name user
				key {client_ip}|{json.user}
				on_empty_key reject
				limit 2
				window 24h
			}
			respond ok`))
		long := "Long" + strings.Repeat("x", 150)
		for _, email := range []string{"Bob%40Example.com", "BOB%40example.com+", long} {
			n.Send(t, "POST", n.URL+"/login", "email="+email, ofForm).Want(t, 200, "ok")
		}
		n.Send(t, "POST", n.URL+"/user", `{"user":"Bób"}`, ofJSON).Want(t, 200, "ok")
		const bob, hint = " Bob@Example.com", "this key counts as bob@example.com"
		command := func(name, key string, args ...string) caddytest.Ending {
			return n.Ratelimit(t, append([]string{name, "--policy", "account", "--key", key}, args...)...)
		}
		command("state", bob).Want(t, 0, "key          bob@example.com\n", "remaining    0\n", hint)
		command("state", "bob@example.com").Want(t, 0, "remaining    0\n")
		command("state", long).Want(t, 0, "remaining    1\n", "this key counts as %~")
		n.Ratelimit(t, "state", "--policy", "user", "--key", "127.0.0.1|BOB").Want(t, 0, "key          127.0.0.1|bob\n", "remaining    1\n")
		n.Ratelimit(t, "state", "--policy", "user", "--key", "%ip:127.0.0.1").Want(t, 0, "remaining    2\n")
		n.Send(t, "POST", n.URL+"/login", "email=bob%40example.com", ofForm).Want(t, 429, caddytest.Any)
		command("override", bob, "--unban").Want(t, 0, "1 ban lifted", hint)
		command("override", bob, "--limit", "5").Want(t, 0, "key       bob@example.com\n", hint)
		n.Send(t, "POST", n.URL+"/login", "email=bob%40example.com", ofForm).Want(t, 200, "ok")
		command("override", bob, "--remove").Want(t, 0, hint)
		command("reset", bob).Want(t, 0, "1 quota reset", hint)
		command("state", "bob@example.com").Want(t, 0, "remaining    2\n")
		command("override", "Bo\\x01b", "--block").Want(t, 2, "no request of policy")
	})
}

// TestKeys_foldedElsewhere has a policy whose handlers fold in different ways: a key that one of them makes stays.
func TestKeys_foldedElsewhere(t *testing.T) {
	policy := func(path, more string) string {
		return "redis_ratelimit " + path + " {\nname account\nlimit 3\nwindow 24h\non_empty_key reject\n" + more + "\n}\n"
	}
	n := caddytest.InProcess(t, policy("/a", "key {form.email}")+policy("/b", "key {form.email}\nraw_key")+"respond ok\n")
	for _, path := range []string{"/a", "/a", "/b"} {
		n.Send(t, "POST", n.URL+path, "email=Bob", ofForm).Want(t, 200, "ok")
	}
	n.Ratelimit(t, "state", "--policy", "account", "--key", "Bob").
		Want(t, 0, "key          Bob\n", "remaining    2\n", "from a request's body this key counts as bob")
	n.Ratelimit(t, "state", "--policy", "account", "--key", "bob").Want(t, 0, "key          bob\n", "remaining    1\n")
	n.Ratelimit(t, "state", "--policy", "account", "--key", "Bob ").Want(t, 0, "key          bob\n", "remaining    1\n")
	n.Ratelimit(t, "override", "--policy", "account", "--key", "Bob", "--block").Want(t, 0, "key       Bob\n")
	n.Send(t, "POST", n.URL+"/b", "email=Bob", ofForm).Want(t, 429, caddytest.Any)
	n.Send(t, "POST", n.URL+"/a", "email=Bob", ofForm).Want(t, 200, "ok")
}

const ofGraphQL = "Content-Type: application/graphql"

// TestExplain_body explains requests with bodies before they are sent, and compares the answers.
func TestExplain_body(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		n := caddytest.Start(t, caddytest.Config(option, `
			`+accountLogin+`
			}
			redis_ratelimit /v1 {
				policy tokens {
					key {json.user}
					limit 1000
					window 24h
					weight llm 40
				}
				policy large {
					match vars {json.model} large
					limit 1
					window 24h
				}
			}
			redis_ratelimit /calls {
				name calls
				limit 50
				window 24h
				weight calls 40
			}
			redis_ratelimit /passes {
				name passes
				match vars {json.model} large
				on_unread pass
				limit 1
				window 24h
			}
			respond ok`))
		for _, test := range []struct {
			path, header, data string
			texts              []string
		}{
			{"/login", "", "email=Bob%40Example.com", []string{"account  bob@example.com  allowed"}},
			{"/login", "", "email=bob%40example.com", []string{"account  bob@example.com  allowed", "1/2"}},
			{"/login", "", "email=bob%40example.com", []string{"account  bob@example.com  denied"}},
			{"/login", "", "", []string{"rejected with the status 400", "account  rejected: empty key", "this request has none; --data gives one"}},
			{"/login", "", "name=x", []string{"rejected with the status 400", "rejected: empty key"}},
			{"/login", "", "email=a&email=b", []string{"rejected with the status 400", "rejected: conflict", "a value of key cannot be used (conflict); the request is refused. The body: two fields may be the one"}},
			{"/login", "Content-Type: text/plain", "email=a", []string{"rejected with the status 415", "rejected: type"}},
			{"/login", "Content-Type:", "email=a", []string{"rejected with the status 415", "rejected: no type"}},
			{"/login", "", "email=" + strings.Repeat("a", 1<<20), []string{"rejected with the status 413", "rejected: size"}},
			{"/v1", ofJSON, `{"user":"Eve","model":"small","max_tokens":100}`, []string{"tokens  eve  allowed", "102", "large        not matched"}},
			{"/v1", ofJSON, `{"user":"Eve","model":"large"}`, []string{"tokens  eve        allowed", "large   127.0.0.1  allowed"}},
			{"/v1", ofJSON, `{"user":"Eve","model":"large"}`, []string{"large   127.0.0.1  denied"}},
			{"/v1", ofJSON, `{"user":["Eve"],"model":"small"}`, []string{"tokens  %ip:127.0.0.1  allowed", "tokens: a value of key cannot be used (array); the client's address counts"}},
			{"/v1", ofJSON, `{"user":"eve","max_tokens":1e400,"model":"x"}`, []string{"tokens: a value of weight cannot be used (number); its fallback counts"}},
			{"/calls", ofJSON, `[{"method":"a"},{"method":"b"},{"query":"c"}]`, []string{"calls   127.0.0.1  allowed        3"}},
			{"/calls", ofGraphQL, "{a}", []string{"calls: a value of weight cannot be used (type); its fallback counts", "calls   127.0.0.1  allowed       40"}},
			{"/calls", ofJSON, "[" + strings.Repeat(`{"query":"a"},`, 51) + "{}]", []string{"calls   127.0.0.1  denied        51", "never"}},
			{"/v1", ofJSON, `{"user":"Eve"`, []string{"rejected with the status 400", "rejected: syntax"}},
			{"/passes", ofJSON, `{"model":["large"]}`, []string{"passes  not matched", "passes: a value of match cannot be used (array); by on_unread the policy is left out"}},
			{"/passes", ofJSON, "\xff", []string{"cannot be used (syntax)"}},
		} {
			t.Run(test.path+" "+test.data[:min(len(test.data), 50)], func(t *testing.T) {
				invalid := n.Metric(t, "caddy_redis_ratelimit_invalid_values_total")
				args := []string{"explain", "--client-ip", "127.0.0.1", "--url", n.URL + test.path}
				headers := []string{ofForm}
				if test.header != "" {
					args, headers = append(args, "-H", test.header), []string{test.header}
				}
				switch {
				case test.header == "Content-Type:":
					headers = nil
				case test.data == "":
					args = append(args, "-X", "POST")
				}
				if test.data != "" {
					path := filepath.Join(t.TempDir(), "data")
					assert.Must(t, os.WriteFile(path, []byte(test.data), 0o600))
					args = append(args, "--data", "@"+path)
				}
				e := n.Ratelimit(t, args...)
				assert.Equal(t, n.Metric(t, "caddy_redis_ratelimit_invalid_values_total"), invalid, "the values that explain has counted")
				a := n.Send(t, "POST", n.URL+test.path, test.data, headers...)
				code := 4
				if a.Status == 200 {
					code = 0
				}
				e.Want(t, code, test.texts...)
				if status, rejected := strings.CutPrefix(test.texts[0], "rejected with the status "); rejected {
					assert.Equal(t, strconv.Itoa(a.Status), status, "the status")
				}
			})
		}
	})
}

// TestExplain_data has bodies in each form of the admin API and of the command.
func TestExplain_data(t *testing.T) {
	n := caddytest.InProcess(t, `
		redis_ratelimit {
			name user
			key {method}|{json.user}
			on_empty_key reject
			limit 2
			window 24h
		}
		respond ok`)
	explain := func(more string) caddytest.Response {
		return n.Ask(t, "POST", "explain", `{"url":"`+n.URL+`/","client_ip":"192.0.2.7",`+more+`}`)
	}
	const typed = `"headers":{"content-type":"application/json"},`
	explain(typed+`"data":"{\"user\":\"Bob\"}"`).Want(t, 200, `*"key":"POST|bob","decision":"allowed"*`)
	explain(typed+`"data":"{\"user\":\"\\ud83d\\ude00\"}"`).Want(t, 200, `*"key":"POST|😀"*`)
	explain(typed+`"method":"PUT","data":{"base64":"eyJ1c2VyIjoiQm9iIn0="}`).Want(t, 200, `*"key":"PUT|bob"*`)
	explain(typed+`"data":{"base64":"eyJ1c2VyIjoi/yJ9"}`).Want(t, 200, `*"status":400*"reason":"utf8"*`)
	explain(typed+`"data":null`).Want(t, 200, `*"status":400*"no_body":true,"reason":"empty_key"*`)
	explain(typed+`"data":""`).Want(t, 200, `*"status":400*"no_body":true,"reason":"empty_key"*`)
	explain(`"data":"{}"`).Want(t, 200, `*"status":415*"reason":"type"*`)
	explain(`"headers":{"content-type":[]},"data":"{}"`).Want(t, 200, `*"status":415*"reason":"no_type"*`)
	for _, wrong := range []string{`5`, `[]`, `{}`, `{"base64":5}`, `{"base64":"?"}`, `{"base64":null}`, `{"base64":"","more":1}`} {
		explain(`"data":`+wrong).Want(t, 400, `*data: write a text, or*`)
	}
	explain(typed+`"data":"`+strings.Repeat("a", 1<<20+1)+`"`).Want(t, 400, "*data: has 1048577 bytes; give at most the first 1048576*")
	explain(`"headers":{"Content-Length":"-1"},"data":"x"`).Want(t, 400, "*headers: Content-Length: use the number*")
	explain(`"headers":{"content-type":"application/json","Content-Length":"900"},"data":"{}"`).Want(t, 400, "*data: the body is longer*")
	explain(`"headers":{"content-type":"application/json","Content-Length":"1048577"},"data":""`).Want(t, 200, `*"status":413*"reason":"size"*`)
	explain(`"headers":{"content-type":"application/json","Content-Length":"14"},"data":"{\"user\":\"Bob\"} and more"`).Want(t, 200, `*"key":"POST|bob"*`)
	long := `{"user":"` + strings.Repeat("\\u0000", 170_000) + `"}`
	explain(typed+`"data":`+string(assert.NoError(json.Marshal(long))(t))).Want(t, 200, `*"reason":"nul"*`)

	command := caddytest.Run{Stdin: strings.NewReader(`{"user":"Eve"}`)}
	command.Ratelimit(t, "explain", "--address", strings.TrimPrefix(n.Admin, "http://"), "--url", n.URL, "-H", ofJSON, "-d", "@-").Want(t, 0, "user    POST|eve  allowed")
	n.Ratelimit(t, "explain", "--url", n.URL, "-H", ofJSON, "-X", "GET", "-d", `{"user":"Eve"}`).Want(t, 0, "user    GET|eve  allowed")
	n.Ratelimit(t, "explain", "--url", n.URL, "-d", "@no such file").Want(t, 1, "--data: open no such file: ")
	n.Ratelimit(t, "explain", "--url", n.URL, "-d", "user=Eve", "-d", "b=2").Want(t, 1, "--data stands 2 times; write it once, the fields of a form with & between")
}

// TestPolicies_bodies describes policies by bodies.
func TestPolicies_bodies(t *testing.T) {
	n := caddytest.InProcess(t, `
		redis_ratelimit {
			name tokens
			key {json.user}
			raw_key
			match vars {json.model} large
			on_unread pass
			on_empty_key reject
			limit {json.limit} 1000
			window 1m
			weight llm 40
			headers x_ratelimit ietf
		}
		redis_ratelimit /files {
			name files
			limit 5MB
			window 1m
			cost response_bytes
			ipv4_prefix 24
			ipv6_prefix 48
			headers x_ratelimit ietf
		}
		respond ok`)
	n.Ratelimit(t, "policies").Want(t, 0, `
tokens: {http.redis_ratelimit.json.limit} units per minute for each JSON value
  user, else 1,000
`, `
  headers       RateLimit and RateLimit-Policy leave it out, as its units have
                no name there
`, `
files: 5MB per minute for each /24 (IPv6 /48)
`, `
  on_unread     pass
`, `
  raw_key
`, `
  weight        llm, else 40
`)
}
