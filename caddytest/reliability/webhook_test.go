package reliability

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// The types of messages.
const (
	isThreshold = "redis_ratelimit.threshold"
	isBan       = "redis_ratelimit.banned"
	isOutage    = "redis_ratelimit.outage.began"
	isRecovery  = "redis_ratelimit.outage.ended"
	isLoss      = "redis_ratelimit.data_lost"
)

// toldSite has a policy with marks and bans.
const toldSite = "redis_ratelimit {\nname told\nkey {query.k}\nlimit 10\nwindow 24h\nalgorithm fixed_window\nnotify 80% 100%\nban 1h after 3\n}" + caddytest.ShowDecision

// toldTo returns the lines of the global option that tell an inbox. The URL has a secret of its own.
func toldTo(b *caddytest.Inbox, lines string) string {
	return "webhook " + b.URL + "/hook?token=hidden-token {\nsecret " + caddytest.InboxSecret + "\n" + lines + "\n}\n"
}

// waitForDelivery waits until nodes have delivered so many messages, and have none left.
func waitForDelivery(t *testing.T, want float64, nodes ...*caddytest.Node) {
	t.Helper()
	assert.WaitFor(t, fmt.Sprintf("%v deliveries", want), func() error {
		delivered, left := 0.0, 0.0
		for _, n := range nodes {
			delivered += n.Metric(t, `webhook_deliveries_total{outcome="delivered"}`)
			left += n.Metric(t, "webhook_queue")
		}
		if delivered != want || left > 0 {
			return fmt.Errorf("%v are delivered, %v left", delivered, left)
		}
		return nil
	})
}

// checkSecrets checks that a node's log has no secret and no key of a client.
func checkSecrets(t *testing.T, n *caddytest.Node, keys ...string) {
	t.Helper()
	for _, line := range n.Log.Lines(caddytest.Ours) {
		for _, secret := range append(keys, "hidden-token", strings.TrimPrefix(caddytest.InboxSecret, "whsec_")) {
			assert.ErrorIf(t, strings.Contains(line.Text, secret), "the log has %s: %s", secret, line.Text)
		}
	}
}

// TestWebhook_nodes has three nodes whose clients reach two marks and are banned, while the receiver fails: each event is
// told once, on a single Redis and on a Cluster.
func TestWebhook_nodes(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]string{"single": caddytest.SharedRedis(t), "cluster": caddytest.OnCluster(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const clients = 8
			box := caddytest.NewInbox(t, 500, 503, 404, 301, 500, 429, 500)
			text := caddytest.Config(strings.TrimSuffix(option, "}")+toldTo(box, "")+"}", toldSite)
			nodes := []*caddytest.Node{caddytest.Start(t, text), caddytest.Start(t, text), caddytest.Start(t, text)}
			for i := range 20 {
				for client := range clients {
					nodes[(i+client)%len(nodes)].Get(t, fmt.Sprintf("/?k=client-%d", client))
				}
			}
			waitForDelivery(t, 3*clients, nodes...)
			ids, told := map[string]string{}, map[string]bool{}
			for _, m := range box.Messages() {
				m.Verify(t)
				event := fmt.Sprint(m.Type, m.Data["threshold"], m.Data["key_hash"])
				assert.ErrorIf(t, ids[event] != "" && ids[event] != m.ID, "%s has two ids", event)
				assert.ErrorIf(t, m.Data["policy"] != "told" || m.Data["source"] != "redis" || m.Data["node"] == "" || m.Data["key"] != nil, "got %v", m.Data)
				ids[event], told[event] = m.ID, true
			}
			assert.Equal(t, len(told), 3*clients, "the number of events")
			assert.Equal(t, len(box.Messages()), 3*clients+7, "the number of attempts")
			for client := range clients {
				hash := caddytest.HashInboxKey(t, fmt.Sprint("client-", client))
				assert.ErrorIf(t, !told[isThreshold+"80"+hash] || !told[isThreshold+"100"+hash] || !told[isBan+"<nil>"+hash], "client %d is missing in %v", client, told)
			}
			for _, n := range nodes {
				checkSecrets(t, n, "client-")
			}
		})
	}
}

// TestWebhook_nodeDies kills a node that has begun to tell. Another one, which the client comes to, tells with the same id
// once the first one holds the mark no longer.
func TestWebhook_nodeDies(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	deaf := caddytest.NewInbox(t)
	deaf.Answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	box := caddytest.NewInbox(t)
	config := func(b *caddytest.Inbox) string {
		return caddytest.Config(strings.TrimSuffix(caddytest.PatientRedis(server), "}")+toldTo(b, "")+"}", toldSite)
	}
	first, second := caddytest.Start(t, config(deaf)), caddytest.Start(t, config(box))
	first.GetTimes(t, 13, "/?k=a") // 80, 100, a ban
	assert.WaitFor(t, "three events", func() error {
		if got := deaf.Messages(); len(got) < 3 {
			return fmt.Errorf("got %+v", got)
		}
		return nil
	})
	assert.Must(t, first.Command.Process.Kill())
	ids := map[string]bool{}
	for _, m := range deaf.Messages() {
		ids[m.ID+m.Body] = true
	}
	client := server.Client(t)
	for _, name := range assert.NoError(client.Keys(t.Context(), "*:told").Result())(t) {
		value := assert.NoError(client.Get(t.Context(), name).Result())(t)
		_, rest, _ := strings.Cut(value, " ")
		assert.Must(t, client.Do(t.Context(), "set", name, "1 "+rest, "keepttl").Err()) // the first node's hold is over
	}
	second.Get(t, "/?k=a").Want(t, http.StatusTooManyRequests, "denied redis")
	ban := box.WaitFor(t, isBan, 1)[0] // which hides what is left
	assert.ErrorIf(t, !ids[ban.ID+ban.Body], "the ban has the id %s, not one of %v", ban.ID, ids)
	for _, m := range box.WaitFor(t, isThreshold, 2) {
		assert.ErrorIf(t, !ids[m.ID+m.Body], "a mark has the id %s, not one of %v", m.ID, ids)
	}
	checkSecrets(t, first)
}

// TestWebhook_reload changes the configuration while the receiver fails: what waits goes on with the same id. With another
// secret it is lost, and counted. A receiver that hangs delays no request, no reload and no exit.
func TestWebhook_reload(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		option = strings.TrimSuffix(option, "}")
		if option == "" {
			option = "redis_ratelimit {\n"
		}
		box := caddytest.NewInbox(t, 500)
		site := func(round int) string { return toldSite + fmt.Sprintf("\nheader X-Round %d", round) }
		n := caddytest.Start(t, caddytest.Config(option+toldTo(box, "events threshold")+"}", site(1)))
		n.GetTimes(t, 8, "/?k=a")
		assert.WaitFor(t, "an attempt", func() error {
			if len(box.Messages()) == 0 {
				return errors.New("there was none")
			}
			return nil
		})
		n.Reload(t, caddytest.Config(option+toldTo(box, "")+"}", site(2)))
		got := box.WaitFor(t, isThreshold, 2)
		assert.ErrorIf(t, got[0].ID != got[1].ID || got[0].Body != got[1].Body, "got %+v", got)
		waitForDelivery(t, 1, n)

		hanging := caddytest.NewHangingInbox(t)
		n.Reload(t, caddytest.Config(option+toldTo(hanging, "")+"}", site(3)))
		var slowest time.Duration // a receiver that is waited for takes 15 s
		timed := func(what func()) {
			begin := time.Now()
			what()
			slowest = max(slowest, time.Since(begin))
		}
		for i := range 30 {
			timed(func() { n.GetTimes(t, 8, fmt.Sprintf("/?k=b%d", i)) })
		}
		hanging.WaitFor(t, isThreshold, 4)   // at once
		n.CheckMetric(t, "webhook_queue", 9) // one by one, and a burst
		timed(func() { n.Reload(t, caddytest.Config(option+toldTo(hanging, "")+"}", site(4))) })
		n.CheckMetric(t, "webhook_queue", 9)
		timed(func() { n.Reload(t, caddytest.Config(option+toldTo(box, "")+"}", site(5))) })
		n.CheckMetric(t, `webhook_deliveries_total{outcome="lost"}`, 9)
		n.CheckMetric(t, "webhook_queue", 0)
		timed(func() { n.Reload(t, caddytest.Config(option+toldTo(hanging, "")+"}", site(6))) })
		timed(func() { n.GetTimes(t, 8, "/?k=c") })
		hanging.WaitFor(t, isThreshold, 5)
		timed(func() { n.Stop(t) })
		assert.ErrorIf(t, slowest > 14*time.Second, "a request, a reload or the exit took %v, as if the receiver were waited for", slowest)
		lines := linesOf(n, "events for the webhook are lost")
		assert.ErrorIf(t, len(lines) != 2 || !strings.Contains(lines[1].Text, `"events":1`), "the log has %+v", lines)
		checkSecrets(t, n)
	})
}

// TestWebhook_outage tells, on each node, of an outage, its end, and data that are lost.
func TestWebhook_outage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	box := caddytest.NewInbox(t)
	text := caddytest.Config(caddytest.RedisAt(server.Addr, "timeout 10s\n"+toldTo(box, "events outage data_lost")), "redis_ratelimit {query.k} 1000000 24h"+caddytest.ShowDecision)
	nodes := []*caddytest.Node{caddytest.Start(t, text), caddytest.Start(t, text)}
	for _, n := range nodes {
		n.Get(t, "/?k=a").Want(t, http.StatusOK, "allowed redis")
		waitForLines(t, n, "redis answers", 1)
	}
	assert.WaitFor(t, "the marker", func() error { return server.Client(t).Get(t.Context(), overridesMarker).Err() })
	assert.Must(t, server.Client(t).FlushAll(t.Context()).Err())
	box.WaitFor(t, isLoss, 2)
	server.Kill()
	for _, n := range nodes {
		n.Await(t, "/?k=a", http.StatusOK, "allowed fallback")
	}
	for _, m := range box.WaitFor(t, isOutage, 2) {
		assert.ErrorIf(t, m.Data["kind"] == "" || m.Data["node"] == "", "got %v", m.Data)
	}
	server.Run(t)
	for _, n := range nodes {
		n.Await(t, "/?k=a", http.StatusOK, "allowed redis")
	}
	for _, m := range box.WaitFor(t, isRecovery, 2) {
		after, _ := m.Data["after"].(float64)
		assert.ErrorIf(t, after < 1, "got %v", m.Data)
	}
	waitForDelivery(t, 6, nodes...)
}

// TestWebhook_outageOfBefore tells that an outage has ended once a configuration with another store runs, unless that one
// fails too.
func TestWebhook_outageOfBefore(t *testing.T) {
	box := caddytest.NewInbox(t)
	lines := toldTo(box, "events outage")
	n := caddytest.WithoutRedis(t, lines, toldSite)
	n.Await(t, "/?k=a", http.StatusOK, "allowed fallback")
	box.WaitFor(t, isOutage, 1)
	n.Reload(t, caddytest.Config("redis_ratelimit {\n"+lines+"}", toldSite))
	box.WaitFor(t, isRecovery, 1)
	waitForDelivery(t, 2, n)
}

// TestWebhook_inOutage tells of what each node decides by itself.
func TestWebhook_inOutage(t *testing.T) {
	box := caddytest.NewInbox(t)
	n := caddytest.WithoutRedis(t, toldTo(box, "events threshold banned"), toldSite)
	n.GetTimes(t, 15, "/?k=a")
	box.WaitFor(t, isThreshold, 2)
	box.WaitFor(t, isBan, 1)
	waitForDelivery(t, 3, n)
}

// TestWebhook_drowned has 1,100 clients reach a mark while the receiver hangs, before Redis fails: the outage is told at once.
func TestWebhook_drowned(t *testing.T) {
	t.Parallel()
	server, box := redistest.Start(t), caddytest.NewHangingInbox(t)
	n := caddytest.Start(t, caddytest.Config(caddytest.RedisAt(server.Addr, "timeout 10s\n"+toldTo(box, "")), strings.ReplaceAll(toldSite, "limit 10", "limit 1")))
	for i := range 1100 {
		n.Get(t, fmt.Sprintf("/?k=drown-%d", i))
	}
	server.Kill()
	n.Await(t, "/?k=a", http.StatusOK, "allowed fallback")
	box.WaitFor(t, isOutage, 1)
	n.CheckMetric(t, `webhook_deliveries_total{outcome="dropped"}`, 0)
	assert.ErrorIf(t, n.Metric(t, "webhook_queue") > 100, "%v events wait", n.Metric(t, "webhook_queue"))
}

// TestWebhook_hiddenKeys has a client's key neither in Redis nor in messages, but in messages under log_keys.
func TestWebhook_hiddenKeys(t *testing.T) {
	t.Parallel()
	hostile, shown := "<b>\"\\\n\u2028\x00\xff\x1b[31m'; --{}%", `<b>"\\\x0a\xe2\x80\xa8\x00\xff\x1b[31m'; --%7B%7D%25`
	for name, option := range map[string]string{"hidden": "", "log_keys": "log_keys\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, box := redistest.Shared(t), caddytest.NewInbox(t)
			site := "vars k {query.k}\n" + strings.NewReplacer("{query.k}", "{vars.k}", "ban 1h", option+"ban 1h").Replace(toldSite)
			n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\nredis "+server.URL()+"\ntimeout 10s\nhash_keys secret\n"+toldTo(box, "events threshold")+"}", site))
			n.GetTimes(t, 8, "/?k=secret-customer")
			n.GetTimes(t, 8, "/?k="+url.QueryEscape(hostile))
			for _, m := range box.WaitFor(t, isThreshold, 2) {
				isHidden := m.Data["key"] == nil && m.Data["key_hash"] != nil && !strings.Contains(m.Body, "secret-customer")
				assert.ErrorIf(t, isHidden != (option == ""), "got %s", m.Body)
			}
			if option != "" {
				keys := []any{box.Messages()[0].Data["key"], box.Messages()[1].Data["key"]}
				assert.ErrorIf(t, !slices.Contains(keys, any("secret-customer")) || !slices.Contains(keys, any(shown)), "got %q", keys)
				n.Ratelimit(t, "state", "--policy", "told", "--key", shown).Want(t, 0, "remaining    2")
			}
			waitForDelivery(t, 2, n)
			client := server.Client(t)
			names := assert.NoError(client.Keys(t.Context(), "*").Result())(t)
			marks := 0
			for _, name := range names {
				value, _ := client.Get(t.Context(), name).Result()
				assert.ErrorIf(t, strings.Contains(name+value, "secret-customer"), "redis has %s: %q", name, value)
				if strings.HasSuffix(name, ":80%:told") {
					marks++
					assert.ErrorIf(t, assert.NoError(client.PTTL(t.Context(), name).Result())(t) <= 0, "%s has no TTL", name)
				}
			}
			assert.Equal(t, marks, 2, "the number of marks in %v", names)
		})
	}
}

// TestWebhook_ACL needs no right that limits do not need.
func TestWebhook_ACL(t *testing.T) {
	t.Parallel()
	server, box := redistest.Start(t), caddytest.NewInbox(t)
	servers := []*redistest.Server{server}
	caddytest.RestrictUser(t, servers, strings.Fields(caddytest.ACLCommands))
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\ntimeout 10s\nredis redis://limiter:secret@"+server.Addr+"\n"+toldTo(box, "events threshold banned")+"}", toldSite))
	n.GetTimes(t, 13, "/?k=a")
	waitForDelivery(t, 3, n)
	assert.Equal(t, caddytest.RefusedByACL(t, servers), nil, "what Redis has refused")
	marks := assert.NoError(server.Client(t).Keys(t.Context(), "rl:{a}:told:*:told").Result())(t)
	assert.Equal(t, len(marks), 3, "the number of marks")
	n.Ratelimit(t, "check", "--config", caddytest.WriteCaddyfile(t, caddytest.WithPorts(n, caddytest.Config("redis_ratelimit {\nredis redis://limiter:secret@"+server.Addr+"\n"+toldTo(box, "")+"}", toldSite)))).Want(t, 0, "permissions")
}
