package chaos

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// soakFault is what happens while all features are in use.
type soakFault struct {
	name   string
	happen func(t *testing.T, s *soak, master int)
}

// soakFaults begin with that of the short soak.
var soakFaults = []soakFault{
	{"master killed, a node reloaded and another one restarted", func(t *testing.T, s *soak, master int) {
		s.group.servers[master].Kill()
		s.reload(t, 0)
		successor := s.group.replaced(t, master)
		s.group.servers[master].Run(t)
		s.group.join(t, master, successor)
		s.restart(t, 1, syscall.SIGTERM)
	}},
	{"failover by command", func(t *testing.T, s *soak, master int) {
		if err := s.group.sentinels[0].Failover(t.Context(), "main").Err(); err != nil {
			t.Fatal(err)
		}
		s.group.replaced(t, master)
	}},
	{"master paused shortly", func(t *testing.T, s *soak, master int) {
		s.group.servers[master].Pause(t)
		<-time.After(300 * time.Millisecond)
		s.group.servers[master].Resume(t)
	}},
	{"master paused until it is replaced", func(t *testing.T, s *soak, master int) {
		s.group.servers[master].Pause(t)
		s.group.replaced(t, master)
		s.group.servers[master].Resume(t)
	}},
	{"latency 50 ms", poisonedFor(time.Second, latency(50))},
	{"latency 300 ms", poisonedFor(time.Second, latency(300))},
	{"connections reset", poisonedFor(300*time.Millisecond,
		redistest.Toxic{Type: "reset_peer", Stream: "downstream", Attributes: map[string]int{"timeout": 0}})},
	{"replies cut off", poisonedFor(time.Second,
		redistest.Toxic{Type: "limit_data", Stream: "downstream", Attributes: map[string]int{"bytes": 2_010}})},
	{"connections killed by CLIENT KILL", func(t *testing.T, s *soak, master int) {
		for range 10 {
			do(t, s.group.servers[master], "client", "kill", "type", "normal")
			<-time.After(50 * time.Millisecond)
		}
	}},
	{"all nodes reloaded", func(t *testing.T, s *soak, _ int) {
		for i := range s.nodes {
			s.reload(t, i)
		}
	}},
	{"node killed and started", func(t *testing.T, s *soak, _ int) { s.restart(t, 2, syscall.SIGKILL) }},
	{"master killed", func(t *testing.T, s *soak, master int) {
		s.group.servers[master].Kill()
		successor := s.group.replaced(t, master)
		s.group.servers[master].Run(t)
		s.group.join(t, master, successor)
	}},
}

// poisonedFor adds a toxic to the master's connections, those of sentinels and replicas included.
func poisonedFor(span time.Duration, toxic redistest.Toxic) func(*testing.T, *soak, int) {
	return func(t *testing.T, s *soak, master int) {
		s.group.proxies[master].Poison(t, toxic)
		<-time.After(span)
		s.group.proxies[master].Cure(t)
	}
}

// heal waits until the group is whole and Redis decides on all nodes, whose overrides hold.
func (s *soak) heal(t *testing.T) {
	t.Helper()
	s.group.settled(t)
	redistest.WaitFor(t, "Redis decides on all nodes", func() error {
		s.group.settled(t)
		for i := range s.nodes {
			n := s.nodes[i].Load()
			for range 4 {
				if a := n.Get(t, "/ready"); a.Body != "redis" {
					return fmt.Errorf("node %d: %v", i, a)
				}
			}
		}
		return nil
	})
}
