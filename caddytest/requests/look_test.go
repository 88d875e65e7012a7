package requests

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// This file has requests that look at a quota: those of which few count by their response, and those that count leaves out.

// failures is a site that bans who gets too many failures, of which the path /403 is one.
func failures(options string) string {
	return "redis_ratelimit {client_ip} 5 400d {\nname failures\ncount_if status 403\n" + options + "\n}\nrespond /403 403\nrespond \"welcome\""
}

// nodesOn starts nodes of one site on one Redis.
func nodesOn(t *testing.T, count int, site string) ([]*caddytest.Node, *redistest.Server) {
	t.Helper()
	server := redistest.Start(t)
	var nodes []*caddytest.Node
	for range count {
		nodes = append(nodes, caddytest.Start(t, caddytest.Config(caddytest.PatientRedis(server), site)))
	}
	return nodes, server
}

// TestLook_page loads a page of a hundred pictures, which no limit of five failures is for.
func TestLook_page(t *testing.T) {
	t.Parallel()
	nodes, server := nodesOn(t, 1, failures("ban 1h"))
	for _, a := range nodes[0].Crowd(t, 100, "/picture") {
		a.Want(t, http.StatusOK, "welcome", "X-Ratelimit-Remaining: 5")
	}
	keys := server.Client(t).Keys(t.Context(), "*failures*").Val()
	assert.ErrorIf(t, len(keys) > 0, "requests that do not count have left the keys %q", keys)
	a := nodes[0].Get(t, "/403")
	assert.ErrorIf(t, a.Status != http.StatusForbidden || a.Header.Get("X-Ratelimit-Remaining") != "4", "a failure shows what is left: %v", a)
	nodes[0].WaitForRefund(t, "failures", "127.0.0.1", 4)
}

// TestLook_guesses has parallel failures. Of POST and of those with a credential five count, whatever the number of nodes; of
// others, by address alone, as many more as may be on their way on each node.
func TestLook_guesses(t *testing.T) {
	t.Parallel()
	const each = 150
	for name, test := range map[string]struct {
		options, method string
		headers         []string
		most            int // beyond the limit
	}{
		"POST":               {"", http.MethodPost, nil, 0},
		"with Authorization": {"", http.MethodGet, []string{"Authorization: Bearer guess"}, 0},
		"with X-Api-Key":     {"", http.MethodGet, []string{"X-Api-Key: guess"}, 0},
		"GET, in_flight 0":   {"in_flight 0", http.MethodGet, nil, 0},
		"GET, in_flight 20":  {"in_flight 20", http.MethodGet, nil, 40},
		"POST, in_flight 20": {"in_flight 20", http.MethodPost, nil, 40},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes, _ := nodesOn(t, 2, failures(test.options))
			got := make(chan caddytest.Response, 2*each)
			for i := range 2 * each {
				go func() {
					a, _ := nodes[i%2].Try(test.method, nodes[i%2].URL+"/403", "", test.headers...)
					got <- a
				}()
			}
			var all []caddytest.Response
			for range 2 * each {
				all = append(all, <-got)
			}
			counts := statuses(all)
			tried := counts[http.StatusForbidden]
			assert.ErrorIf(t, tried < 5 || tried > 5+test.most || tried+counts[http.StatusTooManyRequests] != 2*each,
				"got %v; want from 5 to %d failures", counts, 5+test.most)
			nodes[0].Send(t, test.method, nodes[0].URL+"/other", "", test.headers...).Want(t, http.StatusTooManyRequests, caddytest.Any)
		})
	}
}

// TestLook_one_by_one has failures one after the other, over three nodes.
func TestLook_one_by_one(t *testing.T) {
	t.Parallel()
	nodes, _ := nodesOn(t, 3, failures(""))
	assert.Retry(t, "5 failures pass, or one more for each charge that was on its way", func() (again bool, seen any) {
		tried := 0
		for i := range 30 {
			if nodes[i%3].Get(t, "/403").Status == http.StatusForbidden {
				tried++
			}
		}
		assert.ErrorIf(t, tried < 5, "%d failures passed, want 5 or more", tried)
		for _, n := range nodes { // a busy machine charges late, so that more pass: all again, once no charge is on its way
			n.WaitForRefund(t, "failures", "127.0.0.1", 0)
			assert.Retry(t, "no look is on its way", func() (again bool, seen any) {
				text := n.Ratelimit(t, "policies").Stdout
				return !strings.Contains(text, "looking here  0"), text
			})
		}
		nodes[0].Ratelimit(t, "reset", "--policy", "failures", "--key", "127.0.0.1").Want(t, 0, "1 quota reset")
		return tried > 7, tried
	})
}

// TestLook_broken has answers of a backend that break off, of which nothing was learned.
func TestLook_broken(t *testing.T) {
	t.Parallel()
	site := "redis_ratelimit {client_ip} 5 400d {\ncount_if status 4xx 502\nban 1h\n}\nreverse_proxy /breaks " + newModel(t).addr + "\nrespond / \"sound\""
	nodes, _ := nodesOn(t, 1, site)
	for range 12 {
		nodes[0].Get(t, "/breaks?break=before").Want(t, http.StatusBadGateway, caddytest.Any)
	}
	nodes[0].Get(t, "/").Want(t, http.StatusOK, "sound", "X-Ratelimit-Remaining: 5")
}

// TestLook_beside_slow_takes has five log-ins hang that have taken the limit of five: pictures go on, other log-ins do not.
func TestLook_beside_slow_takes(t *testing.T) {
	t.Parallel()
	release, arrived := make(chan struct{}), make(chan struct{}, 5)
	t.Cleanup(func() { close(release) })
	slow := caddytest.Serve(t, func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	nodes, _ := nodesOn(t, 1, "redis_ratelimit {client_ip} 5 400d {\ncount_if status 4xx\n}\nreverse_proxy /login "+slow+"\nrespond /picture \"picture\"")
	ctx, leave := context.WithCancel(t.Context())
	t.Cleanup(leave)
	for range 5 {
		request := assert.NoError(http.NewRequestWithContext(ctx, http.MethodPost, nodes[0].URL+"/login", http.NoBody))(t)
		go func() {
			if response, err := nodes[0].Client.Do(request); err == nil {
				_ = response.Body.Close()
			}
		}()
	}
	for range 5 {
		<-arrived
	}
	for _, a := range nodes[0].Crowd(t, 30, "/picture") {
		a.Want(t, http.StatusOK, "picture")
	}
	nodes[0].Send(t, http.MethodPost, nodes[0].URL+"/login", "").Want(t, http.StatusTooManyRequests, caddytest.Any, "Retry-After: 1")
}

// TestLook_half_closed has a client close its half of each connection behind its request, which makes it look as if it had left. What it
// is answered counts: it reads on.
func TestLook_half_closed(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"respond": "respond 403", "error": "error 403", "error route": "error 403\nhandle_errors 403 {\nrespond \"no\" 403\n}",
		"files": "root {env.EMPTY}\nfile_server",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := "redis_ratelimit {client_ip} 5 400d {\ncount_if status 4xx\n}\n" + answer
			n := caddytest.Start(t, caddytest.Config("", site), "EMPTY="+t.TempDir())
			failed := 0
			for range 20 {
				text := halfClosed(t, n)
				if !strings.HasPrefix(text, "HTTP/1.1 429 ") {
					assert.ErrorIf(t, !strings.HasPrefix(text, "HTTP/1.1 40"), "got %q", text)
					failed++
				}
			}
			assert.ErrorIf(t, failed < 5 || failed > 6, "%d failures passed, want 5", failed)
		})
	}
}

// halfClosed sends a request, closes that half of its connection, and returns the response.
func halfClosed(t *testing.T, n *caddytest.Node) string {
	t.Helper()
	conn := assert.NoError(net.Dial("tcp", strings.TrimPrefix(n.URL, "http://")))(t)
	defer func() { _ = conn.Close() }()
	_, err := fmt.Fprint(conn, "GET /none HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
	assert.Must(t, err)
	tcp, _ := conn.(*net.TCPConn)
	assert.Must(t, tcp.CloseWrite())
	return string(assert.NoError(io.ReadAll(conn))(t))
}

// trap is a site that bans from all paths who asks for /.env, beside a limit of the site.
func trap(algorithm string) string {
	return `redis_ratelimit {
	policy trap { key {client_ip}; limit 1; window 10m; algorithm ` + algorithm + `; count path /.env; ban 24h }
	policy site { key {client_ip}; limit 100000; window 10m }
}
respond "welcome {http.redis_ratelimit.policy}"`
}

// TestLook_trap visits a site over two nodes, springs the trap at one, and asks the other for anything.
func TestLook_trap(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"sliding_window_counter", "sliding_window_log", "fixed_window", "token_bucket"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			nodes, server := nodesOn(t, 2, trap(algorithm))
			for i := range 8 {
				for _, a := range nodes[i%2].Crowd(t, 30, "/") {
					a.Want(t, http.StatusOK, "welcome site", "X-Ratelimit-Limit: 100000")
				}
			}
			keys := server.Client(t).Keys(t.Context(), "*trap*").Val()
			assert.ErrorIf(t, len(keys) > 0, "240 honest requests have left the keys %q of the trap", keys)
			trapped := nodes[0].Get(t, "/.env").Want(t, http.StatusOK, caddytest.Any, "X-Ratelimit-Limit: 1").Sent
			for _, a := range nodes[1].Crowd(t, 30, "/") {
				caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
				left := 86_400 - assert.NoError(strconv.Atoi(a.Header.Get("Retry-After")))(t)
				passed := time.Since(trapped)
				assert.ErrorIf(t, left < 0 || time.Duration(left)*time.Second > passed, "%d s of the ban are over after %v: %v", left, passed, a)
			}
			caddytest.CheckRefusal(t, nodes[0].Get(t, "/else"), http.StatusTooManyRequests)
			nodes[0].Ratelimit(t, "bans", "--policy", "trap").Want(t, 0, "127.0.0.1", " 1  trap")
			assert.ErrorIf(t, !strings.Contains(nodes[0].Send(t, http.MethodGet, nodes[0].Admin+"/metrics", "").Body,
				`looked_total{policy="trap"} 120`), "the metrics of a node lack its 120 looks")
		})
	}
}

// TestLook_outage bans a client, and takes Redis away: the node goes on to refuse it.
func TestLook_outage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := caddytest.Start(t, caddytest.Config(caddytest.PatientRedis(server), trap("sliding_window_counter")))
	n.Get(t, "/.env").Want(t, http.StatusOK, caddytest.Any)
	n.Get(t, "/").Want(t, http.StatusTooManyRequests, caddytest.Any)
	server.Kill()
	n.Get(t, "/").Want(t, http.StatusTooManyRequests, caddytest.Any, "Retry-After: 86*")
}

// TestLook_explain asks what would become of requests that look.
func TestLook_explain(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", trap("sliding_window_counter")+"\n"))
	n.Ratelimit(t, "explain", "--url", n.URL+"/").Want(t, 0, "trap: looks: count does not match, so that it takes nothing")
	n.Reload(t, caddytest.Config("", failures("")))
	n.Ratelimit(t, "explain", "--url", n.URL+"/").Want(t, 0, "looks first: takes nothing, and counts if its response has status 403; 0 units of the key on their way on this node, of at most 256")
	n.Ratelimit(t, "policies").Want(t, 0, "looking here  0")
}
