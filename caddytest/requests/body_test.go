package requests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

const (
	ofJSON = "Content-Type: application/json"
	ofForm = "Content-Type: application/x-www-form-urlencoded"
)

// bodySite is a site that echoes the body that it gets.
const bodySite = `
	redis_ratelimit {
		%s
	}
	templates {
		mime text/plain
	}
	header Content-Type text/plain
	respond "{http.request.body}" 200
`

// TestBody_key has accounts limited by what a form and a document of JSON say.
func TestBody_key(t *testing.T) {
	caddytest.OnEachStore(t, fmt.Sprintf(bodySite, `
		key {json.user.email}
		limit 2
		window 1h
		on_empty_key reject`), func(t *testing.T, n *caddytest.Node, _ string) {
		for _, step := range []struct {
			body   string
			status int
		}{
			{`{"user":{"email":"Bob@example.com"}}`, 200},
			{`{"user":{"email":" bob@EXAMPLE.com "},"more":[1,2]}`, 200},
			{`{"user":{"email":"bob@example.com"}}`, 429},
			{`{"user":{"email":"eve@example.com"}}`, 200},
			{`{"user":{"email":"bob@example.com","email":"eve@example.com"}}`, 400},
			{`{"user":{"email":["bob@example.com"]}}`, 400},
			{`{"user":{}}`, 400},
			{`{"user":`, 400},
			{``, 400},
		} {
			r := n.Send(t, "POST", n.URL+"/", step.body, ofJSON)
			assert.ErrorIf(t, r.Status != step.status, "%s: status %d, want %d", step.body, r.Status, step.status)
			assert.ErrorIf(t, r.Status == 200 && r.Body != step.body, "%s: the handler got %q", step.body, r.Body)
		}
		assert.Equal(t, n.Send(t, "POST", n.URL+"/", "user.email=bob", ofForm).Status, 415, "the status of a form")
		assert.Equal(t, n.Send(t, "POST", n.URL+"/", `{"user":{"email":"`+strings.Repeat("x", 1<<20)+`"}}`, ofJSON).Status, 413, "the status of 1 MiB")
	})
}

// TestBody_elsewhere has handlers name a value of the body: before the directive, behind it, and behind one that reads none.
func TestBody_elsewhere(t *testing.T) {
	n := caddytest.InProcess(t, `
	route {
		header Before {http.redis_ratelimit.json.name}
		redis_ratelimit /read {
			name read
			key {json.id}
			limit 100
			window 1h
		}
		redis_ratelimit {client_ip} 100 1h {
			name other
		}
		header Behind {http.redis_ratelimit.json.name}
		respond "Hello."
	}`)
	long := strings.Repeat("x", 5000)
	for _, test := range []struct{ path, name, behind string }{
		{"/read", "Bob", "Bob"},
		{"/read", long, long[:4<<10]},
		{"/other", "Bob", ""},
	} {
		a := n.Send(t, "POST", n.URL+test.path, `{"id":1,"name":"`+test.name+`"}`, ofJSON).Want(t, 200, "Hello.")
		assert.Equal(t, a.Header.Get("Before"), "{http.redis_ratelimit.json.name}", "%s: what stands before the directive", test.path)
		assert.Equal(t, a.Header.Get("Behind"), test.behind, "%s: what stands behind the directive", test.path)
	}
}
