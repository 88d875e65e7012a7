package caddytest

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// goroutines returns the number of goroutines of the process.
func (n *node) goroutines(t testing.TB) int {
	t.Helper()
	n.client.CloseIdleConnections()
	a := n.send(t, http.MethodGet, n.Admin+"/debug/pprof/goroutine?debug=1", "")
	text, _, _ := strings.Cut(strings.TrimPrefix(a.body, "goroutine profile: total "), "\n")
	count, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("the profile begins with %q", text)
	}
	return count
}

// connections returns the ids of a server's client connections, without the test's own.
func connections(t testing.TB, server *redistest.Server) []string {
	t.Helper()
	client := server.Client(t)
	list, err := client.ClientList(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, line := range regexp.MustCompile(`(?m)^id=(\d+).*$`).FindAllStringSubmatch(list, -1) {
		if !strings.Contains(line[0], "cmd=client") {
			ids = append(ids, line[1])
		}
	}
	slices.Sort(ids)
	return ids
}

func TestReload_equalSettings(t *testing.T) {
	server := redistest.Start(t)
	n := start(t, config(patient(server), "redis_ratelimit same 1000 24h"+showDecision))
	checkAdmitted(t, n.get(t, "/"), "redis")
	before := connections(t, server)
	for i := range 5 {
		n.reload(t, config(patient(server), fmt.Sprintf("redis_ratelimit same %d 24h%s", 1001+i, showDecision)))
		checkAdmitted(t, n.get(t, "/"), "redis")
	}
	// The ping of a reload opens another connection where the first one is busy.
	for _, id := range before {
		if after := connections(t, server); !slices.Contains(after, id) {
			t.Errorf("connection %s is gone; there were %v, now %v", id, before, after)
		}
	}
}

func TestReload_otherSettings(t *testing.T) {
	server := redistest.Start(t)
	n := start(t, config(patient(server), "redis_ratelimit same 1000 24h"+showDecision))
	checkAdmitted(t, n.get(t, "/"), "redis")
	before := connections(t, server)
	n.reload(t, config(strings.Replace(patient(server), "10s", "11s", 1), "redis_ratelimit same 1000 24h"+showDecision))
	checkQuota(t, n.get(t, "/"), 1000, 998)
	redistest.WaitFor(t, "the old connections are closed", func() error {
		after := connections(t, server)
		for _, id := range before {
			if slices.Contains(after, id) {
				return fmt.Errorf("there were %v, now %v", before, after)
			}
		}
		return nil
	})
	n.reload(t, config("", "redis_ratelimit same 1000 24h"+showDecision))
	checkAdmitted(t, n.get(t, "/"), "memory")
	redistest.WaitFor(t, "all connections are closed", func() error {
		if left := connections(t, server); len(left) > 0 {
			return fmt.Errorf("%v are left", left)
		}
		return nil
	})
}

// TestReload_leaks alternates between two clients. Each reload opens one and closes one, with failed
// reloads between.
func TestReload_leaks(t *testing.T) {
	server := redistest.Start(t)
	text := func(i int) string {
		timeout := fmt.Sprintf("%ds", 10+i%2)
		return config(strings.Replace(patient(server), "10s", timeout, 1), "redis_ratelimit same 1000 24h"+showDecision)
	}
	n := start(t, text(0))
	turn := func(i int) {
		n.reload(t, text(i))
		checkAdmitted(t, n.get(t, "/"), "redis")
		broken := config("redis_ratelimit {\nredis redis://:{env.NOWHERE}@127.0.0.1:1\n}", "redis_ratelimit same 5 24h")
		if a := n.load(t, broken); a.status != http.StatusBadRequest {
			t.Fatalf("got %v for a wrong configuration", a)
		}
	}
	for i := range 3 {
		turn(i)
	}
	goroutines := n.goroutines(t)
	for i := range 20 {
		turn(i)
	}
	// One connection serves requests, a second one the ping at the start.
	redistest.WaitFor(t, "no more goroutines and connections than before", func() error {
		now, open := n.goroutines(t), connections(t, server)
		if now > goroutines+2 || len(open) > 2 {
			return fmt.Errorf("%d goroutines, before %d; connections %v", now, goroutines, open)
		}
		return nil
	})
	checkQuota(t, n.get(t, "/"), 1000, 1000-24)
}
