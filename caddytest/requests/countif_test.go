package requests

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
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

func TestCountIf_statuses(t *testing.T) {
	t.Parallel()
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		for _, algorithm := range []string{"sliding_window_counter", "sliding_window_log", "fixed_window", "token_bucket", "leaky_bucket", "gcra"} {
			n := caddytest.Start(t, caddytest.Config(option, logIn(algorithm, "")))
			remaining := func(path string) string {
				return n.Get(t, path+"?k="+algorithm).Header.Get("X-Ratelimit-Remaining")
			}
			for range 20 {
				if got := remaining("/200"); got != "5" {
					t.Errorf("%s: %s remain after a log-in that went well", algorithm, got)
				}
				n.WaitForRefund(t, "default", algorithm, 5)
			}
			for i, path := range []string{"/401", "/error", "/404", "/401", "/broken"} {
				if got, want := remaining(path), []string{"4", "3", "3", "2", "1"}[i]; got != want {
					t.Errorf("%s, %s: %s remain, want %s", algorithm, path, got, want)
				}
				n.WaitForRefund(t, "default", algorithm, []int64{4, 3, 3, 2, 1}[i])
			}
			n.Get(t, "/401?k="+algorithm)
			if a := n.Get(t, "/200?k="+algorithm); a.Status != http.StatusTooManyRequests {
				t.Errorf("%s: got %v; want even the right password refused", algorithm, a)
			}
		}
	})
}

// TestCountIf_concurrent tries many passwords at once.
func TestCountIf_concurrent(t *testing.T) {
	t.Parallel()
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		n := caddytest.Start(t, caddytest.Config(option, logIn("sliding_window_log", "")))
		var tried atomic.Int64
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				if a, err := n.Try(http.MethodGet, n.URL+"/401?k=crowd", ""); err != nil {
					t.Error(err)
				} else if a.Status == http.StatusUnauthorized {
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
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	t.Cleanup(leave)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	slow := caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stream" {
			for range 3 {
				fmt.Fprint(w, "part ")
				_ = http.NewResponseController(w).Flush() // it is supported
			}
			return
		}
		leave()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	n := caddytest.Start(t, caddytest.Config("", `redis_ratelimit same 5 24h {
		algorithm fixed_window
		count_if status 401
	}
	reverse_proxy /gone `+redistest.FreeAddr(t)+`
	reverse_proxy `+slow))
	if a := n.Get(t, "/stream"); a.Body != "part part part " || a.Header.Get("X-Ratelimit-Remaining") != "5" {
		t.Errorf("got %v; want it given back at the first part", a)
	}
	if a := n.Get(t, "/gone"); a.Status != http.StatusBadGateway || a.Header.Get("X-Ratelimit-Remaining") != "4" {
		t.Errorf("got %v; want it counted", a)
	}
	request := caddytest.GetRequest(ctx, t, n.URL+"/slow")
	if response, err := n.Client.Do(request); err == nil {
		_ = response.Body.Close()
		t.Fatal("the slow upstream answered")
	}
	redistest.WaitFor(t, "who left is counted", func() error {
		if a := n.Get(t, "/stream"); a.Header.Get("X-Ratelimit-Remaining") != "3" {
			return fmt.Errorf("got %v", a)
		}
		return nil
	})
}

// TestCountIf_websocket upgrades a connection.
func TestCountIf_websocket(t *testing.T) {
	t.Parallel()
	upgrading := caddytest.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		w.WriteHeader(http.StatusSwitchingProtocols)
	})
	n := caddytest.Start(t, caddytest.Config("", `redis_ratelimit same 5 24h {
		algorithm fixed_window
		count_if status 101
	}
	reverse_proxy `+upgrading))
	for want := 4; want >= 3; want-- {
		request := caddytest.GetRequest(t.Context(), t, n.URL)
		request.Header.Set("Connection", "Upgrade")
		request.Header.Set("Upgrade", "websocket")
		response, err := n.Client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if got := response.Header.Get("X-Ratelimit-Remaining"); response.StatusCode != http.StatusSwitchingProtocols || got != fmt.Sprint(want) {
			t.Errorf("status %s, %s remain, want %d", response.Status, got, want)
		}
	}
}

// TestCountIf_dryRun has another policy deny: the dry run refunds, because its count_if does not match
// the denial.
func TestCountIf_dryRun(t *testing.T) {
	t.Parallel()
	for _, errors := range []string{"", "\n\thandle_errors {\n\t\trespond refused\n\t}"} {
		n := caddytest.Start(t, caddytest.Config("", `redis_ratelimit {
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
			n.Get(t, "/")
		}
		n.CheckMetric(t, `decisions_total{decision="dry_run_allowed",policy="pretended",source="memory"}`, 10)
		n.CheckMetric(t, `decisions_total{decision="dry_run_denied",policy="pretended",source="memory"}`, 0)
	}
}

// TestCountIf_outerHandlers has outer handlers that replace the response after count_if has matched.
func TestCountIf_outerHandlers(t *testing.T) {
	t.Parallel()
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		n := caddytest.Start(t, caddytest.Config(option, `route {
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
			caddytest.CheckQuota(t, n.Get(t, "/200"), 500, 499-i) // the binding policy where the log-ins are refunded
			n.WaitForRefund(t, "logins", "same", 3)
		}
		for left := int64(2); left >= 0; left-- {
			a := n.Get(t, "/401")
			caddytest.CheckQuota(t, a, 3, left)
			if a.Status != http.StatusOK {
				t.Errorf("got %v; want the status that is answered instead", a)
			}
		}
		caddytest.CheckRefusal(t, n.Get(t, "/401"), http.StatusTooManyRequests)
	})
}

// statusUpstream starts a server whose paths are the statuses of its responses.
func statusUpstream(t *testing.T) string {
	return caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusNotFound
		_, _ = fmt.Sscan(strings.TrimPrefix(r.URL.Path, "/"), &status) // other paths get 404
		w.WriteHeader(status)
	})
}
