package redis

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// setRight grants a right to the user "limiter", or revokes it.
func setRight(t *testing.T, s *redistest.Server, rights ...string) {
	t.Helper()
	rule := []any{"acl", "setuser", "limiter"}
	for _, right := range rights {
		rule = append(rule, right)
	}
	if err := s.Client(t).Do(t.Context(), rule...).Err(); err != nil {
		t.Fatal(err)
	}
}

// TestRights_revoked revokes a right that only the script needs, during traffic and before any, and grants
// it again.
func TestRights_revoked(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{"local": "allowed fallback", "open": "failed_open redis", "closed": "failed_closed redis"} {
		for right, algorithm := range map[string]string{"set": "gcra", "rpush": "sliding_window_log"} {
			t.Run(mode+" without "+right, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				caddytest.RestrictUser(t, []*redistest.Server{server}, strings.Fields(caddytest.ACLCommands))
				n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\ntimeout 5s\nredis redis://limiter:secret@"+server.Addr+"\nfail_mode "+mode+"\n}",
					"redis_ratelimit same 1000000 24h {\nalgorithm "+algorithm+"\n}"+caddytest.ShowDecision))
				caddytest.WaitForRedis(t, n, "/")
				setRight(t, server, "-"+right)
				checkReported(t, n, "closed", want) // by commands alone, before any request
				for range 5 {
					if a := n.Get(t, "/"); a.Body != want {
						t.Errorf("got %v, want %s", a, want)
					}
				}
				n.CheckMetric(t, "breaker_open", 1)
				if n.Metric(t, `store_errors_total{kind="auth"}`) != 1 || n.Metric(t, `store_errors_total{kind="breaker"}`) != 4 {
					t.Error("the errors are not counted by kind")
				}
				checkReported(t, n, "open", want)
				setRight(t, server, "+"+right)
				n.CheckMetric(t, "breaker_open", 0) // without requests
				caddytest.CheckOutageLog(t, n)
				if a := n.Get(t, "/"); a.Body != "allowed redis" {
					t.Errorf("got %v", a)
				}
				n.Ratelimit(t, "policies").Want(t, 0, "decides in", "breaker closed")
			})
		}
	}
}

// checkReported checks that policies and explain report the decisions of requests.
func checkReported(t *testing.T, n *caddytest.Node, breaker, want string) {
	t.Helper()
	n.Ratelimit(t, "policies").Want(t, 0, "does not decide (", "breaker "+breaker)
	e := n.Ratelimit(t, "explain", "--url", n.URL+"/", "--json")
	decision, source, _ := strings.Cut(want, " ")
	if !strings.Contains(e.Stdout, `"decision":"`+decision+`"`) || strings.Contains(e.Stdout, `"source":"redis"`) ||
		source == "fallback" && !strings.Contains(e.Stdout, `"source":"fallback"`) || !strings.Contains(e.Stdout, `"error":"`) {
		t.Errorf("explain says %v, requests get %s", e, want)
	}
}

// TestRights_renamedCommand has a command that no user can run. The log has the error, and check the
// remedy.
func TestRights_renamedCommand(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--rename-command", "SET", "")
	option := "redis redis://" + server.Addr + "\nfail_mode open"
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\n"+option+"\n}", "redis_ratelimit same 1000000 24h"+caddytest.ShowDecision))
	redistest.WaitFor(t, "the log has an outage", func() error {
		if a := n.Get(t, "/"); a.Body != "failed_open redis" {
			t.Fatalf("got %v", a)
		}
		if len(n.Log.Outages()) != 1 {
			return fmt.Errorf("%v", n.Log.Lines(caddytest.Ours))
		}
		return nil
	})
	if line := n.Log.Outages()[0].Text; !strings.Contains(line, `"kind":"command"`) {
		t.Errorf("the log says %s", line)
	}
	findings, code := check(t, option, "redis_ratelimit same 10 1m")
	if code == 0 {
		t.Error("check finds nothing")
	}
	wantFinding(t, findings, "commands", "failed", "unknown to this Redis: set")
	wantFinding(t, findings, "script", "failed", "see the check of commands")
}

// TestRefund_lost kills Redis before the response.
func TestRefund_lost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	arrived, answer := make(chan struct{}), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-answer
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(upstream.Close)
	n := caddytest.Start(t, caddytest.Config(caddytest.PatientRedis(server),
		"route /slow {\nredis_ratelimit {query.k} 100 24h {\ncount_if status 401\n}\nreverse_proxy "+strings.TrimPrefix(upstream.URL, "http://")+
			"\n}\nredis_ratelimit same 1000000 24h {\nname other\n}"+caddytest.ShowDecision))
	caddytest.WaitForRedis(t, n, "/")
	const requests = 3
	done := make(chan error)
	for range requests {
		go func() {
			_, err := n.Try(http.MethodGet, n.URL+"/slow?k=secretkey", "")
			done <- err
		}()
		select {
		case <-arrived:
		case <-time.After(time.Minute):
			t.Fatal("no request arrives")
		}
	}
	server.Kill()
	close(answer)
	for range requests {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	redistest.WaitFor(t, "lost refunds are counted", func() error {
		lost := 0.0
		for _, kind := range []string{"refused", "connection", "timeout", "breaker"} {
			lost += n.Metric(t, `refund_errors_total{kind="`+kind+`"}`)
		}
		if lost != requests {
			return fmt.Errorf("%v are", lost)
		}
		return nil
	})
	lines := n.Log.Lines(func(l caddytest.LogLine) bool { return caddytest.Ours(l) && strings.Contains(l.Message, "refunds") })
	if len(lines) != 1 || lines[0].Level != "warn" || strings.Contains(lines[0].Text, "secretkey") {
		t.Errorf("the log has %v", lines)
	}
	server.Run(t)
	n.CheckMetric(t, "breaker_open", 0)
	caddytest.CheckOutageLog(t, n)
}

// TestForeignValue_log checks that a foreign value affects its client alone, and is logged once a minute.
func TestForeignValue_log(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := caddytest.Start(t, caddytest.Config(caddytest.PatientRedis(server), "redis_ratelimit {query.k} 100 24h"+caddytest.ShowDecision))
	caddytest.WaitForRedis(t, n, "/?k=good")
	if err := server.Client(t).Set(t.Context(), "rl:{secretkey}:default:c1d", "a foreign value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if a := n.Get(t, "/?k=secretkey"); a.Body != "allowed fallback" {
			t.Errorf("got %v", a)
		}
	}
	if a := n.Get(t, "/?k=good"); a.Body != "allowed redis" {
		t.Errorf("got %v", a)
	}
	n.CheckMetric(t, `store_errors_total{kind="value"}`, 5)
	n.CheckMetric(t, "breaker_open", 0)
	lines := n.Log.Lines(func(l caddytest.LogLine) bool { return caddytest.Ours(l) && l.Level == "warn" })
	if len(lines) != 1 || !strings.Contains(lines[0].Text, `"kind":"value"`) || strings.Contains(lines[0].Text, "secretkey") {
		t.Errorf("the log has %v", lines)
	}
}
