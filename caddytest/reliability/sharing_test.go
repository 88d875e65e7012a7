package reliability

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// crowd sends requests of 64 clients at once, each a few times, in turn to each node. It returns the
// number of responses with 200. All others must be 429.
func crowd(t *testing.T, path string, each int, nodes ...*caddytest.Node) int {
	t.Helper()
	const clients = 64
	var mu sync.Mutex
	admitted := 0
	var errs []error
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			for j := range each {
				n := nodes[(i+j)%len(nodes)]
				a, err := n.Try(http.MethodGet, n.URL+path, "")
				mu.Lock()
				switch {
				case err != nil:
					errs = append(errs, err)
				case a.Status == http.StatusOK && a.Body == "allowed redis":
					admitted++
				case a.Status != http.StatusTooManyRequests || !a.DeniedByRedis():
					errs = append(errs, fmt.Errorf("got %v", a))
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return admitted
}

// TestSharing_twoNodes uses a window of a day, in which a bucket drains one unit in a quarter of an hour,
// and a window of a minute where the algorithm admits exactly the limit in it.
func TestSharing_twoNodes(t *testing.T) {
	t.Parallel()
	site := ""
	windows := map[string][]string{}
	for _, algorithm := range limiter.Algorithms() {
		windows[algorithm] = []string{"24h"}
		switch algorithm {
		case "sliding_window_counter", "sliding_window_log", "fixed_window":
			windows[algorithm] = []string{"24h", "1m"}
		}
		for _, window := range windows[algorithm] {
			name := algorithm + "-" + window
			site += fmt.Sprintf("redis_ratelimit /%s {\nname %s\nkey {query.k}\nlimit 100\nwindow %s\nalgorithm %s\n}\n", name, name, window, algorithm)
		}
	}
	global := caddytest.PatientRedis(redistest.Start(t))
	first, second := caddytest.Start(t, caddytest.Config(global, site+caddytest.ShowDecision)), caddytest.Start(t, caddytest.Config(global, site+caddytest.ShowDecision))
	for _, algorithm := range limiter.Algorithms() {
		for _, window := range windows[algorithm] {
			t.Run(algorithm+" "+window, func(t *testing.T) {
				length, err := time.ParseDuration(window)
				if err != nil {
					t.Fatal(err)
				}
				admitted := withinOneWindow(t, length, func(key string) int {
					return crowd(t, "/"+algorithm+"-"+window+"?k="+key, 4, first, second)
				})
				if admitted != 100 {
					t.Errorf("%d requests passed, want 100", admitted)
				}
			})
		}
	}
}

// withinOneWindow makes a count. It repeats it with another key if a fixed window of that length ended
// meanwhile.
func withinOneWindow(t *testing.T, window time.Duration, count func(key string) int) int {
	t.Helper()
	for attempt := range 2 {
		before := time.Now().Truncate(window)
		admitted := count(fmt.Sprint("client-", attempt))
		if time.Now().Truncate(window).Equal(before) {
			return admitted
		}
	}
	t.Fatalf("counting took longer than the window of %v", window)
	return 0
}

func TestSharing_scriptFlush(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	n := caddytest.Start(t, caddytest.Config(caddytest.PatientRedis(server), "redis_ratelimit same 1000 24h"+caddytest.ShowDecision))
	done := make(chan struct{})
	var group sync.WaitGroup
	flushes := 0
	group.Go(func() {
		for ; ; flushes++ {
			select {
			case <-done:
				return
			default:
				if err := client.ScriptFlush(t.Context()).Err(); err != nil {
					t.Error(err)
				}
			}
		}
	})
	admitted := crowd(t, "/", 20, n)
	close(done)
	group.Wait()
	if admitted != 1000 || flushes < 3 {
		t.Errorf("%d requests passed during %d flushes, want 1000 during 3 or more", admitted, flushes)
	}
	if lines := n.Log.Outages(); len(lines) > 0 {
		t.Errorf("the log has an outage: %v", lines)
	}
}
