package requests

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// slowly answers after the time that the query has as wait, and writes the body for the time of the query's body. With break
// the body breaks off, or the answer if there is no body.
func slowly(w http.ResponseWriter, r *http.Request) {
	pause := func(name string) {
		if d, err := time.ParseDuration(r.URL.Query().Get(name)); err == nil {
			<-time.After(d)
		}
	}
	pause("wait")
	if file := r.URL.Query().Get("file"); file != "" {
		w.Header().Set("X-Accel-Redirect", file)
	}
	if r.URL.Query().Has("body") {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("begun"))
		_ = http.NewResponseController(w).Flush() // it is supported
		pause("body")
		_, _ = w.Write([]byte(strings.Repeat(".", 95)))
	}
	if r.URL.Query().Has("break") {
		panic(http.ErrAbortHandler)
	}
}

// breaking is a server that takes connections, and closes each after a time.
func breaking(t *testing.T, after time.Duration) (address string) {
	t.Helper()
	listener := assert.NoError(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			time.AfterFunc(after, func() { _ = conn.Close() })
		}
	}()
	return listener.Addr().String()
}

// timedGet sends a GET request, and returns the status, and when it was sent and its header was there, which Caddy passes on
// before the body has ended. A body may break off.
func timedGet(t *testing.T, n *caddytest.Node, path string) (status int, began, answered time.Time, broken error) {
	t.Helper()
	began = time.Now()
	response := assert.NoError(n.Client.Do(caddytest.GetRequest(t.Context(), t, n.URL+path)))(t)
	answered = time.Now()
	_, broken = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return response.StatusCode, began, answered, broken
}

// timedQuota is the options of a policy that charges the time of the backend, and has taken an estimate before, and timed a
// directive with that policy.
const (
	timedQuota = "key {query.k}; limit 100000; window 400d; algorithm fixed_window; weight 50000; cost backend_time"
	timed      = "redis_ratelimit * { name timed; " + timedQuota + " }\n"
)

// timedSite has a directive that charges the time of the backend around what takes time.
func timedSite(t *testing.T) string {
	t.Helper()
	backend, root := caddytest.Serve(t, slowly), t.TempDir()
	assert.Must(t, os.WriteFile(filepath.Join(root, "page.txt"), []byte("page"), 0o600))
	assert.Must(t, os.WriteFile(filepath.Join(root, "page.php"), nil, 0o600))
	return `root ` + root + `
	route {
		redis_ratelimit * {
			policy timed { ` + timedQuota + ` }
			policy lone { key {query.k}; limit 100000; window 400d; algorithm fixed_window; cost backend_time }
		}
		redis_ratelimit /queued { name queued; key same; limit 60; window 1m; algorithm leaky_bucket; max_delay 10s }
		redis_ratelimit /denied same 1 400d
		@authorized path /guarded* /file*
		forward_auth @authorized ` + backend + ` {
			uri /auth?wait=300ms
		}
		forward_auth /login ` + backend + ` {
			uri /auth?wait=100ms&{query}
		}
		respond /static "static"
		@files path /file*
		rewrite @files /page.txt
		@page path /page.txt
		file_server @page
		php_fastcgi /page.php ` + caddytest.ServeFastCGI(t, http.HandlerFunc(slowly)) + `
		reverse_proxy /dead 127.0.0.1:1
		reverse_proxy /broken ` + breaking(t, 200*time.Millisecond) + `
		reverse_proxy /impatient ` + backend + ` {
			transport http { response_header_timeout 200ms }
		}
		reverse_proxy ` + backend + ` {
			flush_interval -1
		}
	}`
}

// charged returns what a policy has charged a key in all, once that is at least so much, and no estimate any more.
func charged(t *testing.T, n *caddytest.Node, policy, key string, least int64) (units int64) {
	t.Helper()
	assert.Retry(t, key+" is charged", func() (bool, any) {
		units = 100_000 - n.Remaining(t, policy, key)
		return units < least || units == 50_000, fmt.Sprintf("%s has charged %d units, want at least %d", policy, units, least)
	})
	return units
}

// TestBackendTime charges the milliseconds that backends took, and nothing else that takes time: bodies, directives further in,
// and who says whether a request may go on.
func TestBackendTime(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		n := caddytest.Start(t, caddytest.Config(option, timedSite(t)))
		n.Get(t, "/denied?k=first")
		for key, test := range map[string]struct {
			path    string
			status  int           // 0: the response breaks off
			took    time.Duration // at least
			besides time.Duration // that does not count, at least
			isFree  bool          // no backend has worked, so that nothing counts
		}{
			"quick":        {"/?wait=1ms", 200, time.Millisecond, 0, false},
			"slow":         {"/?wait=400ms", 200, 400 * time.Millisecond, 0, false},
			"body":         {"/?wait=50ms&body=500ms", 200, 50 * time.Millisecond, 0, false}, // the body comes behind the header
			"cut":          {"/?wait=50ms&body=500ms&break", 0, 50 * time.Millisecond, 0, false},
			"no answer":    {"/?wait=200ms&break", 502, 200 * time.Millisecond, 0, false},
			"broken":       {"/broken", 502, 200 * time.Millisecond, 0, false},
			"impatient":    {"/impatient?wait=5s", 504, 200 * time.Millisecond, 0, false},
			"queued":       {"/queued?wait=50ms", 200, 50 * time.Millisecond, 0, false},
			"guarded":      {"/guarded?wait=50ms", 200, 50 * time.Millisecond, 300 * time.Millisecond, false},
			"guarded file": {"/file?wait=9s", 200, 0, 300 * time.Millisecond, true},
			"php":          {"/page.php?wait=100ms", 200, 100 * time.Millisecond, 0, false},
			"not let in":   {"/login?break", 502, 100 * time.Millisecond, 0, false},
			"static":       {"/static", 200, 0, 0, true},
			"file":         {"/page.txt", 200, 0, 0, true},
			"lost":         {"/file/none?wait=9s", 200, 0, 300 * time.Millisecond, true},
			"dead":         {"/dead", 502, 0, 0, true},
			"denied":       {"/denied", 429, 0, 0, true},
		} {
			t.Run(key, func(t *testing.T) {
				t.Parallel()
				key = strings.ReplaceAll(key, " ", "-")
				separator := "?"
				if strings.Contains(test.path, "?") {
					separator = "&"
				}
				var turn time.Time // before which the request waits
				if key == "queued" {
					first := n.Get(t, "/queued?k=first").Want(t, http.StatusOK, caddytest.Any)
					turn = first.Sent.Add(950 * time.Millisecond) // of a second, of which nothing is left on a busy machine
				}
				status, began, answered, broken := timedGet(t, n, test.path+separator+"k="+key)
				if turn.Before(began) {
					turn = began
				}
				most := (answered.Sub(turn) - test.besides).Milliseconds() + 1
				if test.status == 0 {
					assert.ErrorIf(t, broken == nil, "the body has not broken off")
				} else {
					assert.Equal(t, status, test.status, "the status")
				}
				least := test.took.Milliseconds()
				if test.isFree {
					most = 0
				}
				units, lone := charged(t, n, "timed", key, least), charged(t, n, "lone", key, max(1, least))
				if units > most || lone != max(1, units) {
					t.Errorf("charged %d, and %d with a weight of 1; want %d to %d, and 1 at least", units, lone, least, most)
				}
			})
		}
	})
}

// TestBackendTime_accelerated charges what an application took that leaves the answer to Caddy, and of its answer to another
// request too.
func TestBackendTime_accelerated(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		backend, root := caddytest.Serve(t, slowly), t.TempDir()
		assert.Must(t, os.WriteFile(filepath.Join(root, "page.txt"), []byte("page"), 0o600))
		n := caddytest.Start(t, caddytest.Config(option, timed+`root `+root+`
		reverse_proxy `+backend+` {
			@accelerated header X-Accel-Redirect *
			handle_response @accelerated {
				rewrite /page.txt
				file_server
			}
		}`))
		for key, path := range map[string]string{
			"file": "/?wait=100ms&file=page.txt", "page": "/?wait=100ms", "cut": "/?wait=100ms&body=1ms&break",
		} {
			began := time.Now()
			_, _ = n.Try(http.MethodGet, n.URL+path+"&k="+key, "") // one body breaks off
			most := time.Since(began).Milliseconds() + 1
			units := charged(t, n, "timed", key, 100)
			assert.ErrorIf(t, units > most, "%s is charged %d, want at most %d", path, units, most)
		}
	})
}

// TestBackendTime_tries charges all tries of a request, by any method, and with forward_auth in front what that took too.
func TestBackendTime_tries(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		backend := caddytest.Serve(t, slowly)
		proxy := `reverse_proxy ` + breaking(t, 200*time.Millisecond) + ` ` + backend + ` {
			lb_policy first
			lb_retries 1
		}`
		for name, site := range map[string]string{
			"tried":   timed + proxy,
			"guarded": "route {\n" + timed + "forward_auth " + backend + " {\nuri /auth?wait=1ms\n}\n" + proxy + "\n}",
		} {
			n := caddytest.Start(t, caddytest.Config(option, site))
			for _, path := range []string{"/?wait=100ms", "/?wait=100ms&body=1ms&break"} {
				key := fmt.Sprint(name, len(path))
				began := time.Now()
				_, _ = n.Try(http.MethodGet, n.URL+path+"&k="+key, "") // one body breaks off
				most := time.Since(began).Milliseconds() + 1
				units := charged(t, n, "timed", key, 300)
				assert.ErrorIf(t, units > most, "%s%s is charged %d, want at most %d", name, path, units, most)
			}
		}
	})
}

// TestBackendTime_leaving charges who leaves before the answer what the backend has worked until then.
func TestBackendTime_leaving(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		backend := caddytest.NewHolder(t)
		n := caddytest.Start(t, caddytest.Config(option, timed+"reverse_proxy "+backend.Addr))
		began := time.Now()
		held := backend.Begin(t, n, "/?k=leaves")
		running := time.Now()
		<-time.After(300 * time.Millisecond)
		worked := time.Since(running).Milliseconds()
		held.Leave()
		units := charged(t, n, "timed", "leaves", worked)
		if most := time.Since(began).Milliseconds() + 1; units > most {
			t.Errorf("charged %d, want %d to %d", units, worked, most)
		}
	})
}

// TestBackendTime_switched charges a WebSocket what its beginning took, however long it lives, also beside forward_auth.
func TestBackendTime_switched(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		backend := caddytest.NewHolder(t)
		n := caddytest.Start(t, caddytest.Config(option, `route {
			`+timed+`
			forward_auth /guarded `+backend.Addr+` {
				uri /quick
			}
			reverse_proxy `+backend.Addr+`
		}`))
		request := caddytest.GetRequest(t.Context(), t, n.URL+"/websocket?k=socket")
		caddytest.Upgrade(request)
		began := time.Now()
		socket := assert.NoError(n.Client.Transport.RoundTrip(request))(t)
		most := time.Since(began).Milliseconds() + 1
		<-time.After(500 * time.Millisecond)
		assert.Must(t, socket.Body.Close())
		if units := charged(t, n, "timed", "socket", 1); units > most {
			t.Errorf("charged %d, want at most %d", units, most)
		}
	})
}

// TestBackendTime_nodes plays the recipe on two nodes: who has used up the time of a minute waits, and no other client does.
func TestBackendTime_nodes(t *testing.T) {
	t.Parallel()
	backend := caddytest.NewHolder(t)
	recipe := caddytest.Config(caddytest.SharedRedis(t), `redis_ratelimit {
		policy backend-time { key {client_ip}; limit 20000; window 1m; algorithm token_bucket; cost backend_time }
		policy at-once { key {client_ip}; max_concurrent 10 }
	}
	reverse_proxy `+backend.Addr)
	nodes := []*caddytest.Node{caddytest.Start(t, recipe), caddytest.Start(t, recipe)}
	for range 10 {
		backend.Begin(t, nodes[0], "/")
	}
	for _, n := range nodes {
		n.Get(t, "/quick").Want(t, http.StatusTooManyRequests, caddytest.Any) // the eleventh at once
	}
	<-time.After(3 * time.Second)
	backend.EndAll()
	for _, n := range nodes {
		assert.Retry(t, "the time is used up", func() (bool, any) {
			a := n.Get(t, "/quick")
			return a.Status != http.StatusTooManyRequests, a
		})
	}
	backend.WaitRunning(t, 0)
	used := 20_000 - nodes[1].Remaining(t, "backend-time", "127.0.0.1")
	assert.Equal(t, used, 20_000, "units that are used, of more than 30,000 that were charged")
}
