package overrides

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis/dial"
)

// follow gives one Redis what another one has, by replication, and ends that.
func follow(t *testing.T, to, from *redistest.Server) {
	t.Helper()
	host, port, _ := strings.Cut(from.Addr, ":")
	client := to.Client(t)
	redistest.Must(t, client.SlaveOf(t.Context(), host, port).Err())
	redistest.WaitFor(t, "the replica follows", func() error {
		info, err := client.Info(t.Context(), "replication").Result()
		if err == nil && !strings.Contains(info, "master_link_status:up") {
			err = errors.New(info)
		}
		return err
	})
	redistest.Must(t, client.SlaveOf(t.Context(), "NO", "ONE").Err())
}

// TestLive_promoted has a Redis replaced by a replica that has not received the last change. The node that made it gives it back. Where
// another node has changed something before, that is what stays.
func TestLive_promoted(t *testing.T) {
	t.Parallel()
	for name, changed := range map[string]bool{"restored": false, "changed before": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, replica := redistest.Start(t, "--repl-diskless-sync-delay", "0"), redistest.Start(t, "--repl-diskless-sync-delay", "0")
			a, b := newNode(t, plain, dial.Standalone, server.Addr), newNode(t, plain, dial.Standalone, server.Addr)
			put(t, a, Target{"api", "kept"}, Rule{Action: Limit, Limit: 5}, 0)
			refresh(t, b)
			follow(t, replica, server)
			put(t, a, Target{"api", "lost"}, Rule{Action: Limit, Limit: 6}, 0)
			follow(t, server, replica)
			want := int64(6)
			if changed {
				put(t, b, Target{"api", "new"}, Rule{Action: Block}, 0)
				want = 0
			}
			for _, node := range []*Live{a, b, a} {
				redistest.WaitFor(t, "the replica is asked", func() error { return node.Refresh(t.Context()) })
			}
			for _, node := range []*Live{a, b} {
				wantLimit(t, node, "api", "kept", 5)
				wantLimit(t, node, "api", "lost", want)
			}
		})
	}
}
