package caddytest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// logIn is a site whose path is the status of the log-in.
func logIn(algorithm, more string) string {
	return `redis_ratelimit {query.k} 5 24h {
		algorithm ` + algorithm + `
		count_if status 401 403
	}
	` + more + `
	@ok path /200
	respond @ok "welcome"
	@bad path /401
	respond @bad 401
	error /error 403
	error /broken 500
	respond 404`
}

// waitForRefund waits until the quota has so many units again. On Redis no request waits for a refund, and
// the next request may overtake it.
func (n *node) waitForRefund(t testing.TB, policy, key string, remaining int64) {
	t.Helper()
	redistest.WaitFor(t, "the unit is given back", func() error {
		a := n.ask(t, http.MethodPost, "state", `{"policy":"`+policy+`","key":"`+key+`"}`)
		if left := asked[struct{ Remaining int64 }](t, a).Remaining; left != remaining {
			return fmt.Errorf("%d remain", left)
		}
		return nil
	})
}

func TestCountIf_statuses(t *testing.T) {
	onBothStores(t, func(t *testing.T, option, _ string) {
		for _, algorithm := range []string{"sliding_window_counter", "sliding_window_log", "fixed_window", "token_bucket", "leaky_bucket", "gcra"} {
			n := start(t, config(option, logIn(algorithm, "")))
			remaining := func(path string) string {
				return n.get(t, path+"?k="+algorithm).header.Get("X-Ratelimit-Remaining")
			}
			for range 20 {
				if got := remaining("/200"); got != "5" {
					t.Errorf("%s: %s remain after a log-in that went well", algorithm, got)
				}
				n.waitForRefund(t, "default", algorithm, 5)
			}
			for i, path := range []string{"/401", "/error", "/404", "/401", "/broken"} {
				if got, want := remaining(path), []string{"4", "3", "3", "2", "1"}[i]; got != want {
					t.Errorf("%s, %s: %s remain, want %s", algorithm, path, got, want)
				}
				n.waitForRefund(t, "default", algorithm, []int64{4, 3, 3, 2, 1}[i])
			}
			n.get(t, "/401?k="+algorithm)
			if a := n.get(t, "/200?k="+algorithm); a.status != http.StatusTooManyRequests {
				t.Errorf("%s: got %v; want even the right password refused", algorithm, a)
			}
		}
	})
}

// TestCountIf_concurrent tries many passwords at once.
func TestCountIf_concurrent(t *testing.T) {
	onBothStores(t, func(t *testing.T, option, _ string) {
		n := start(t, config(option, logIn("sliding_window_log", "")))
		var tried atomic.Int64
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				if a, err := n.try(http.MethodGet, n.URL+"/401?k=crowd", ""); err != nil {
					t.Error(err)
				} else if a.status == http.StatusUnauthorized {
					tried.Add(1)
				}
			})
		}
		group.Wait()
		if tried.Load() != 5 {
			t.Errorf("%d passwords were tried, want 5", tried.Load())
		}
	})
}

// TestCountIf_aborted has an upstream that never responds in time, one that is down, and one that streams.
func TestCountIf_aborted(t *testing.T) {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	slow := serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stream" {
			for range 3 {
				fmt.Fprint(w, "part ")
				_ = http.NewResponseController(w).Flush() // it is supported
			}
			return
		}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	n := start(t, config("", `redis_ratelimit same 5 24h {
		algorithm fixed_window
		count_if status 401
	}
	reverse_proxy /gone `+redistest.FreeAddr(t)+`
	reverse_proxy `+slow))
	if a := n.get(t, "/stream"); a.body != "part part part " || a.header.Get("X-Ratelimit-Remaining") != "5" {
		t.Errorf("got %v; want it given back at the first part", a)
	}
	if a := n.get(t, "/gone"); a.status != http.StatusBadGateway || a.header.Get("X-Ratelimit-Remaining") != "4" {
		t.Errorf("got %v; want it counted", a)
	}
	ctx, leave := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer leave()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.URL+"/slow", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if response, err := n.client.Do(request); err == nil {
		_ = response.Body.Close()
		t.Fatal("the slow upstream answered")
	}
	redistest.WaitFor(t, "who left is counted", func() error {
		if a := n.get(t, "/stream"); a.header.Get("X-Ratelimit-Remaining") != "3" {
			return fmt.Errorf("got %v", a)
		}
		return nil
	})
}

// TestCountIf_websocket upgrades a connection.
func TestCountIf_websocket(t *testing.T) {
	upgrading := serveFunc(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		w.WriteHeader(http.StatusSwitchingProtocols)
	})
	n := start(t, config("", `redis_ratelimit same 5 24h {
		algorithm fixed_window
		count_if status 101
	}
	reverse_proxy `+upgrading))
	for want := 4; want >= 3; want-- {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Connection", "Upgrade")
		request.Header.Set("Upgrade", "websocket")
		response, err := n.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if got := response.Header.Get("X-Ratelimit-Remaining"); response.StatusCode != http.StatusSwitchingProtocols || got != fmt.Sprint(want) {
			t.Errorf("status %s, %s remain, want %d", response.Status, got, want)
		}
	}
}

// serveFunc starts a server and returns its address.
func serveFunc(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// TestCountIf_dryRun has another policy deny: the dry run refunds, because its count_if does not match
// the denial.
func TestCountIf_dryRun(t *testing.T) {
	for _, errors := range []string{"", "\n\thandle_errors {\n\t\trespond refused\n\t}"} {
		n := start(t, config("", `redis_ratelimit {
			policy tight {
				key same
				limit 1
				window 24h
			}
			policy pretended {
				key same
				limit 3
				window 24h
				count_if status 401
				dry_run
			}
		}
		respond ok`+errors))
		for range 10 {
			n.get(t, "/")
		}
		n.checkMetric(t, `decisions_total{decision="dry_run_allowed",policy="pretended",source="memory"}`, 10)
		n.checkMetric(t, `decisions_total{decision="dry_run_denied",policy="pretended",source="memory"}`, 0)
	}
}

// TestCountIf_outerHandlers has outer handlers that replace the response after count_if has matched.
func TestCountIf_outerHandlers(t *testing.T) {
	onBothStores(t, func(t *testing.T, option, _ string) {
		n := start(t, config(option, `route {
			redis_ratelimit same 1000 24h {
				name all
			}
			intercept {
				@bad status 401
				handle_response @bad {
					respond 200
				}
			}
			redis_ratelimit same 3 24h {
				name logins
				count_if status 401
			}
			redis_ratelimit same 500 24h {
				name between
			}
			reverse_proxy `+statusUpstream(t)+`
		}`))
		for i := range int64(5) {
			checkQuota(t, n.get(t, "/200"), 500, 499-i) // the binding policy where the log-ins are refunded
			n.waitForRefund(t, "logins", "same", 3)
		}
		for left := int64(2); left >= 0; left-- {
			a := n.get(t, "/401")
			checkQuota(t, a, 3, left)
			if a.status != http.StatusOK {
				t.Errorf("got %v; want the status that is answered instead", a)
			}
		}
		checkRefusal(t, n.get(t, "/401"), http.StatusTooManyRequests)
	})
}

// statusUpstream starts a server whose paths are the statuses of its responses.
func statusUpstream(t *testing.T) string {
	return serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusNotFound
		_, _ = fmt.Sscan(strings.TrimPrefix(r.URL.Path, "/"), &status) // other paths get 404
		w.WriteHeader(status)
	})
}
