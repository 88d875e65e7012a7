package requests

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// model responds with the number of bytes and of used tokens that the request names.
func model(t *testing.T) string {
	t.Helper()
	return caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if tokens := r.URL.Query().Get("tokens"); tokens != "" {
			w.Header().Set("X-Tokens-Used", tokens)
		}
		var length int
		_, _ = fmt.Sscan(r.URL.Query().Get("bytes"), &length) // none is 0
		_, _ = io.WriteString(w, strings.Repeat("x", length))
	})
}

// checkRemaining waits until a peek shows the remaining units.
func checkRemaining(t *testing.T, n *caddytest.Node, path, want string) {
	t.Helper()
	redistest.WaitFor(t, want+" units remain", func() error {
		if a := n.Get(t, path); a.Header.Get("X-Ratelimit-Remaining") != want {
			return fmt.Errorf("got %v", a)
		}
		return nil
	})
}

func TestCost_bytes(t *testing.T) {
	t.Parallel()
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		n := caddytest.Start(t, caddytest.Config(option, `redis_ratelimit /get {query.k} 1000 24h {
			algorithm fixed_window
			cost response_bytes
		}
		redis_ratelimit /look {query.k} 1000 24h {
			algorithm fixed_window
			count_if status 418
		}
		reverse_proxy `+model(t)))
		n.Get(t, "/get?k=a&bytes=100")
		checkRemaining(t, n, "/look?k=a", "900")
		n.Get(t, "/get?k=a&bytes=100000")
		checkRemaining(t, n, "/look?k=a", "0")
		n.Get(t, "/get?k=b&bytes=0")
		checkRemaining(t, n, "/look?k=b", "999")
	})
}

// TestCost_bytes_clientGone has a client that closes the connection within a response.
func TestCost_bytes_clientGone(t *testing.T) {
	t.Parallel()
	sent, left := make(chan struct{}), make(chan struct{})
	upstream := caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/look" {
			return
		}
		_, _ = io.WriteString(w, strings.Repeat("x", 500))
		_ = http.NewResponseController(w).Flush() // it can
		close(sent)
		<-r.Context().Done()
		close(left)
	})
	n := caddytest.Start(t, caddytest.Config("", `redis_ratelimit /get same 1000 24h {
		algorithm fixed_window
		cost response_bytes
	}
	redis_ratelimit /look same 1000 24h {
		algorithm fixed_window
		count_if status 418
	}
	reverse_proxy `+upstream+` {
		flush_interval -1
	}`))
	ctx, leave := context.WithCancel(t.Context())
	request := caddytest.GetRequest(ctx, t, n.URL+"/get")
	response, err := n.Client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	<-sent
	if _, err := io.ReadFull(response.Body, make([]byte, 500)); err != nil {
		t.Fatal(err)
	}
	leave()
	_ = response.Body.Close()
	<-left
	checkRemaining(t, n, "/look", "500")
}

// TestCost_denied_further_in has a second handler that denies what the first allowed, and a policy in dry run.
func TestCost_denied_further_in(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", `route {
		redis_ratelimit /get same 1000 24h {
			name outer
			algorithm fixed_window
			cost response_bytes
		}
		redis_ratelimit /get same 1 24h {
			name inner
		}
		redis_ratelimit /dry same 2 24h {
			name dry
			algorithm fixed_window
			cost response_bytes
			dry_run
		}
		redis_ratelimit /look same 1000 24h {
			name outer
			algorithm fixed_window
			count_if status 418
		}
		reverse_proxy `+model(t)+`
	}
	handle_errors {
		respond "a body that is not charged"
	}`))
	n.Get(t, "/get?bytes=99")
	n.Get(t, "/get?bytes=99")
	checkRemaining(t, n, "/look", "900")
	n.Get(t, "/get?bytes=99")
	checkRemaining(t, n, "/look", "899")
	for range 2 {
		if a := n.Get(t, "/dry?bytes=10"); a.Status != http.StatusOK {
			t.Fatalf("got %v", a)
		}
	}
	n.CheckMetric(t, `decisions_total{decision="dry_run_denied",policy="dry",source="memory"}`, 1)
}

// TestCost_bytes_compressed has a handler outside of the compression, one inside of it, and
// clients that send HEAD.
func TestCost_bytes_compressed(t *testing.T) {
	t.Parallel()
	limit := func(path, name, more string) string {
		return `redis_ratelimit ` + path + ` {query.k} 10000 24h {
			name ` + name + `
			algorithm fixed_window
			` + more + `
		}
		`
	}
	n := caddytest.Start(t, caddytest.Config("", "route {\n"+limit("/get", "outer", "cost response_bytes")+"encode gzip\n"+limit("/get", "inner", "cost response_bytes")+
		limit("/outer", "outer", "count_if status 418")+limit("/inner", "inner", "count_if status 418")+`
		respond /get `+strings.Repeat("x", 5000)+`
	}`))
	n.Get(t, "/get?k=zipped", "Accept-Encoding: gzip")
	checkRemaining(t, n, "/inner?k=zipped", "5000")
	redistest.WaitFor(t, "few bytes are charged outside", func() error {
		a := n.Get(t, "/outer?k=zipped")
		if left, err := strconv.Atoi(a.Header.Get("X-Ratelimit-Remaining")); err != nil || left < 9000 || left > 9990 {
			return fmt.Errorf("got %v", a)
		}
		return nil
	})
	n.Send(t, http.MethodHead, n.URL+"/get?k=head", "")
	n.Get(t, "/get?k=both", "Accept-Encoding: identity") // by then the other is charged too
	checkRemaining(t, n, "/outer?k=both", "5000")
	checkRemaining(t, n, "/inner?k=both", "5000")
	checkRemaining(t, n, "/inner?k=head", "9999")
	checkRemaining(t, n, "/outer?k=head", "9999")
}
