package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// banningSite bans for an hour who is denied, and has policies whose names begin alike.
const banningSite = `redis_ratelimit /api {
		policy api { key {query.k}; limit 2; window 24h; ban 1h }
	}
	redis_ratelimit /api2 {
		policy api2 { key {query.k}; limit 2; window 24h; ban 1h }
	}
	redis_ratelimit /plain {
		policy plain { key {query.k}; limit 2; window 24h }
	}
	respond "{http.redis_ratelimit.decision} {http.redis_ratelimit.reason}"
	handle_errors { respond "{http.redis_ratelimit.decision} {http.redis_ratelimit.reason}" }`

// ban has a client banned.
func ban(t *testing.T, n *caddytest.Node, path, key string) {
	t.Helper()
	n.GetTimes(t, 4, path+"?k="+key)
	n.Get(t, path+"?k="+key).Want(t, 0, "denied ban")
}

// wantReason checks the decision and the reason of the next request.
func wantReason(t *testing.T, n *caddytest.Node, path, key, body string) {
	t.Helper()
	n.Get(t, path+"?k="+key).Want(t, 0, body)
}

// everyStore are the global options of all stores.
func everyStore(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{
		"memory":     "",
		"standalone": caddytest.SharedRedis(t),
		"hashed":     strings.Replace(caddytest.SharedRedis(t), "timeout", "hash_keys secret\ntimeout", 1),
		"sentinel":   "redis_ratelimit {\ntimeout 10s\nredis {\nmode sentinel\nmaster main\naddress " + redistest.StartSentinel(t, redistest.Start(t), "main").Addr + "\n}\n}",
		"cluster":    "redis_ratelimit {\ntimeout 10s\nredis {\nmode cluster\naddress " + redistest.StartCluster(t)[0].Addr + "\n}\n}",
	}
}

// TestUnban lifts the bans of one client and of all. Their counts stay, so that they are denied once more,
// which bans them again.
func TestUnban(t *testing.T) {
	t.Parallel()
	for name, option := range everyStore(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := caddytest.Start(t, caddytest.Config(option, banningSite))
			for _, key := range []string{"a", "b", "all", "*"} {
				ban(t, n, "/api", key)
			}
			ban(t, n, "/api2", "a")
			n.Override(t, 200, `{"policy":"api","key":"all","limit":50}`) // room, once the ban is lifted
			wantReason(t, n, "/api", "all", "denied ban")
			n.Ratelimit(t, "override", "--policy", "api", "--key", "all", "--unban").Want(t, 0, "1 ban lifted")
			n.Ratelimit(t, "override", "--policy", "api", "--key", "all", "--unban").Want(t, 0, "0 bans lifted")
			n.Ratelimit(t, "override", "--policy", "api", "--key", "*", "--unban").Want(t, 0, "1 ban lifted")
			wantReason(t, n, "/api", "all", "allowed ")
			wantReason(t, n, "/api", "a", "denied ban")
			a := n.Override(t, 200, `{"policy":"api","key":"absent","unban":true}`)
			assert.ErrorIf(t, strings.TrimSpace(a.Body) != `{"unbanned":0}`, "got %v; want the number of bans", a)
			n.Override(t, 200, `{"policy":"api","all":true,"limit":50}`)
			a = n.Override(t, 200, `{"policy":"api","all":true,"unban":true}`)
			assert.ErrorIf(t, strings.TrimSpace(a.Body) != `{"unbanned":2}`, "got %v; want the bans of a and b", a)
			for _, key := range []string{"a", "b", "all", "*"} {
				wantReason(t, n, "/api", key, "allowed ")
			}
			wantReason(t, n, "/api2", "a", "denied ban")
			n.Ratelimit(t, "bans").Want(t, 0, "api2")
			for body, status := range map[string]int{
				`{"policy":"nope","key":"a","unban":true}`: 404, `{"policy":"nope","all":true,"unban":true}`: 404,
				`{"policy":"plain","key":"a","unban":true}`: 400, `{"policy":"plain","all":true,"unban":true}`: 400,
				`{"policy":"api","key":"a","unban":true,"for":"1h"}`: 400, `{"policy":"api","unban":true}`: 400,
			} {
				n.Override(t, status, body)
			}
		})
	}
}

// TestUnban_part lifts the bans of all clients while a master of the Cluster is gone.
func TestUnban_part(t *testing.T) {
	t.Parallel()
	masters := redistest.StartCluster(t)
	redistest.Tolerate(t, masters)
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\ntimeout 10s\nredis {\nmode cluster\naddress "+masters[0].Addr+" "+masters[1].Addr+"\n}\n}", banningSite))
	for _, key := range []string{"b1", "b4", "b2"} { // a master each
		ban(t, n, "/api", key)
	}
	masters[2].Kill()
	n.Ratelimit(t, "override", "--policy", "api", "--all", "--unban").Want(t, 3, "2 bans lifted in a part of Redis; the rest could not be asked")
	n.Override(t, 200, `{"policy":"api","all":true,"unban":true}`).Want(t, 0, `{"node_only":true,"unbanned":3,*`) // the other masters have none any more
}

// TestUnban_listed lifts a ban by the key that the list of the banned shows.
func TestUnban_listed(t *testing.T) {
	t.Parallel()
	for name, option := range everyStore(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := caddytest.Start(t, caddytest.Config(option, unexamined(banningSite)))
			n.Override(t, 200, `{"policy":"api","all":true,"limit":3}`)
			for _, key := range []string{"%25", "%1b%5b2J%0aall", "%5cx41", strings.Repeat("long", 100), "%7d%3aapi%3ab1d"} {
				ban(t, n, "/api", key)
				list := caddytest.ParseJSON[struct{ Bans []struct{ Key string } }](t, n.Ask(t, http.MethodGet, "bans?policy=api", ""))
				assert.FatalIf(t, len(list.Bans) != 1 || strings.HasPrefix(list.Bans[0].Key, "%ip:"), "%s: listed are %+v", key, list)
				if listed := list.Bans[0].Key; name == "standalone" { // the command is the same on every store
					n.Ratelimit(t, "override", "--policy", "api", "--key", listed, "--unban").Want(t, 0, "1 ban lifted")
				} else {
					question := assert.NoError(json.Marshal(map[string]any{"policy": "api", "key": listed, "unban": true}))(t)
					n.Override(t, 200, string(question)).Want(t, 0, `{"unbanned":1}*`)
				}
				n.Get(t, "/api?k="+key).Want(t, 0, "denied ban", "X-RateLimit-Remaining: 0") // a new ban, because the count stays
				n.Override(t, 200, `{"policy":"api","all":true,"unban":true}`)
				list = caddytest.ParseJSON[struct{ Bans []struct{ Key string } }](t, n.Ask(t, http.MethodGet, "bans?policy=api", ""))
				assert.ErrorIf(t, len(list.Bans) != 0, "%s: listed are %+v", key, list)
			}
		})
	}
}

// TestUnban_outage asks while Redis is away: the ban is lifted on this node alone, until Redis decides again.
func TestUnban_outage(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Start(t).Addr)
	site := strings.ReplaceAll(banningSite, "ban 1h", "ban 1h after 2")
	n := caddytest.Start(t, caddytest.Config(caddytest.RedisAt(proxy.Addr, "timeout 10s"), site))
	ban(t, n, "/api", "a")
	ban(t, n, "/api", "b")
	n.Override(t, 200, `{"policy":"api","all":true,"limit":50}`) // room, once a ban is lifted
	proxy.Part()
	assert.Retry(t, "the node decides by itself", func() (again bool, seen any) {
		a := n.Get(t, "/plain?k=x")
		return n.Metric(t, `decisions_total{decision="allowed",policy="plain",source="fallback"}`) == 0, a
	})
	wantReason(t, n, "/api", "a", "denied ban")
	wantReason(t, n, "/api", "b", "denied ban")
	n.Ratelimit(t, "override", "--policy", "api", "--unban", "--key", "a").Want(t, 0, "1 ban lifted on this node alone", "Hint: redis is away")
	wantReason(t, n, "/api", "a", "allowed ")
	wantReason(t, n, "/api", "b", "denied ban")
	n.Override(t, 200, `{"policy":"api","all":true,"unban":true}`).Want(t, 0, `{"node_only":true,"unbanned":1,"hint":*`)
	wantReason(t, n, "/api", "b", "allowed ")
	proxy.Join()
	for _, key := range []string{"a", "b"} { // Redis has both bans still
		assert.Retry(t, "Redis decides again", func() (again bool, seen any) {
			a := n.Get(t, "/api?k="+key)
			return a.Body != "denied ban", a
		})
	}
}

// TestUnban_all_slowly lifts all bans of a Redis that takes longer to search than other questions may take.
func TestUnban_all_slowly(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	n := caddytest.Start(t, caddytest.Config(caddytest.RedisAt(proxy.Addr, "timeout 10s"), banningSite))
	ban(t, n, "/api", "a")
	client := server.Client(t)
	for i := range 3000 {
		assert.Must(t, client.Set(t.Context(), fmt.Sprint("other", i), "", 0).Err())
	}
	proxy.Delay(1500 * time.Millisecond)
	n.Ratelimit(t, "override", "--policy", "api", "--all", "--unban").Want(t, 0, "1 ban lifted")
}
