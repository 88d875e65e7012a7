package requests

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// thresholdEvent is the data of an event, as Caddy logs it at DEBUG.
type thresholdEvent struct {
	Policy, Source, Key string
	Limit, Remaining    int64
	Threshold           float64
	DryRun              bool `json:"dry_run"`
}

// thresholdEvents returns the events so far.
func thresholdEvents(t *testing.T, n *caddytest.Node) (events []thresholdEvent) {
	t.Helper()
	for _, line := range n.Log.Lines(func(l caddytest.LogLine) bool {
		return l.Message == "event" && strings.Contains(l.Text, `"name":"redis_ratelimit.threshold"`)
	}) {
		var logged struct{ Data thresholdEvent }
		assert.Must(t, json.Unmarshal([]byte(line.Text), &logged))
		events = append(events, logged.Data)
	}
	return events
}

// waitForThresholds waits for events of so many marks, in any order, and fails where there are more.
func waitForThresholds(t *testing.T, n *caddytest.Node, want ...float64) []thresholdEvent {
	t.Helper()
	var events []thresholdEvent
	assert.WaitFor(t, fmt.Sprintf("the events %v", want), func() error {
		events = thresholdEvents(t, n)
		var marks []float64
		for _, e := range events {
			marks = append(marks, e.Threshold)
		}
		if slices.Sort(marks); !slices.Equal(marks, want) {
			return fmt.Errorf("got %+v", events)
		}
		return nil
	})
	return events
}

func notifySite(options string) string {
	return "redis_ratelimit {\nname watched\nkey {query.k}\nlimit 10\nwindow 400d\nalgorithm fixed_window\nnotify 80% 100%\n" + options + "\n}\nrespond /401 401\nrespond {query.body} 200\n"
}

// TestNotify_take reaches both marks, once each, whatever comes after.
func TestNotify_take(t *testing.T) {
	caddytest.OnEachStore(t, notifySite("log_keys"), func(t *testing.T, n *caddytest.Node, source string) {
		n.GetTimes(t, 7, "/?k=a")
		n.Get(t, "/?k=b")
		assert.Equal(t, thresholdEvents(t, n), nil, "the list of events")
		n.Get(t, "/?k=a")
		e := waitForThresholds(t, n, 80)[0]
		assert.ErrorIf(t, e.Key != "a" || e.Limit != 10 || e.Remaining != 2 || e.Source != source || e.DryRun, "got %+v", e)
		n.GetTimes(t, 10, "/?k=a")
		assert.Equal(t, waitForThresholds(t, n, 80, 100)[1].Remaining, 0, "what remains")
		n.Ratelimit(t, "reset", "--policy", "watched", "--key", "a").Want(t, 0)
		n.GetTimes(t, 10, "/?k=a") // the same window
		n.GetTimes(t, 9, "/?k=b")
		waitForThresholds(t, n, 80, 80, 100, 100)
		denials := n.Log.Lines(func(l caddytest.LogLine) bool { return l.Message == "request denied" })
		assert.ErrorIf(t, len(denials) == 0 || !strings.Contains(denials[0].Text, `"key":"a"`), "log_keys shows %v", denials)
		n.Ratelimit(t, "policies").Want(t, 0, "  notify       80% 100%\n")
	})
}

// TestNotify_nodes reaches a mark by requests on two nodes: one of them tells of it.
func TestNotify_nodes(t *testing.T) {
	t.Parallel()
	option := caddytest.OnCluster(t)
	one, two := caddytest.Start(t, caddytest.Config(option, notifySite(""))), caddytest.Start(t, caddytest.Config(option, notifySite("")))
	for i := range 10 {
		[]*caddytest.Node{one, two}[i%2].Get(t, "/?k=a")
	}
	assert.Equal(t, waitForThresholds(t, two, 80, 100)[0].Key, "", "the key of an event without log_keys")
	assert.Equal(t, thresholdEvents(t, one), nil, "the list of events")
}

// TestNotify_cost reaches marks by what responses cost.
func TestNotify_cost(t *testing.T) {
	caddytest.OnEachStore(t, notifySite("cost response_bytes"), func(t *testing.T, n *caddytest.Node, source string) {
		n.Get(t, "/?k=a&body=1234567") // 7 of 10
		n.Get(t, "/?k=b&body=12345678").Want(t, http.StatusOK, caddytest.Any)
		e := waitForThresholds(t, n, 80)[0]
		assert.ErrorIf(t, e.Remaining != 2 || e.Source != source, "got %+v", e)
		n.Get(t, "/?k=c&body=12345678901234567890")
		waitForThresholds(t, n, 80, 80, 100)
	})
}

// TestNotify_countIf tells of units that stay, and not of those that are refunded.
func TestNotify_countIf(t *testing.T) {
	caddytest.OnEachStore(t, notifySite("count_if status 401"), func(t *testing.T, n *caddytest.Node, _ string) {
		n.GetTimes(t, 7, "/401?k=a")
		for range 3 {
			n.Get(t, "/?k=a")
			n.WaitForRefund(t, "watched", "a", 3)
		}
		n.Get(t, "/401?k=b")
		assert.Equal(t, thresholdEvents(t, n), nil, "the list of events")
		n.Get(t, "/401?k=a")
		waitForThresholds(t, n, 80)
	})
}

// TestNotify_estimate has an estimate be given back because the request is denied, further in or, of a dry run, by the same
// directive: its mark is reached by a request that costs the estimate, and not before.
func TestNotify_estimate(t *testing.T) {
	t.Parallel()
	const watched, once = "key {query.k}\nlimit 10\nwindow 400d\nalgorithm fixed_window\nnotify 80%\nweight 9\ncost {query.cost} 9\n", "key {query.k}\nlimit 1\nwindow 400d\n"
	for name, site := range map[string]string{
		"further in": "route {\nredis_ratelimit {\nname watched\n" + watched + "}\nredis_ratelimit {\nname once\n" + once + "}\nrespond hello\n}",
		"dry run":    "redis_ratelimit {\npolicy watched {\n" + watched + "dry_run\n}\npolicy once {\n" + once + "}\n}\nrespond hello",
	} {
		t.Run(name, func(t *testing.T) {
			caddytest.OnEachStore(t, site, func(t *testing.T, n *caddytest.Node, _ string) {
				n.Get(t, "/?k=a&cost=0").Want(t, http.StatusOK, caddytest.Any)
				n.WaitForRefund(t, "watched", "a", 10)
				n.Get(t, "/?k=a&cost=9").Want(t, http.StatusTooManyRequests, caddytest.Any)
				n.WaitForRefund(t, "watched", "a", 10)
				n.Get(t, "/?k=b&cost=9").Want(t, http.StatusOK, caddytest.Any)
				assert.Equal(t, waitForThresholds(t, n, 80)[0].Remaining, 1, "what remains")
			})
		})
	}
}

// TestNotify_lease reaches marks by units that a node takes ahead, while another one takes as many or single ones:
// every mark has an event.
func TestNotify_lease(t *testing.T) {
	t.Parallel()
	option := caddytest.SharedRedis(t)
	site := func(lease string) string {
		return "redis_ratelimit {query.k} 2000 400d {\nname watched\nalgorithm fixed_window\nnotify 5% 15% 25% 35% 45% 55% 65% 75% 85% 95%\n" + lease + "\n}\nrespond hello"
	}
	one := caddytest.Start(t, caddytest.Config(option, site("lease")))
	for name, other := range map[string]struct {
		lease string
		every time.Duration
	}{"busy": {"lease", 0}, "slow": {"lease 5ms", 3 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			two, before := caddytest.Start(t, caddytest.Config(option, site(other.lease))), len(thresholdEvents(t, one))
			served := atomic.Int64{}
			send := func(n *caddytest.Node, every time.Duration) {
				for served.Add(1) <= 2200 {
					if a, err := n.Try(http.MethodGet, n.URL+"/?k="+name, ""); err != nil || a.Status >= http.StatusInternalServerError {
						t.Errorf("got %v, %v", a, err)
					}
					<-time.After(every)
				}
			}
			var group sync.WaitGroup
			group.Go(func() { send(one, 0) })
			group.Go(func() { send(two, other.every) })
			group.Wait()
			assert.WaitFor(t, "all marks have had an event", func() error {
				seen := map[float64]bool{}
				for _, events := range [][]thresholdEvent{thresholdEvents(t, one)[before:], thresholdEvents(t, two)} {
					own := map[float64]bool{}
					for _, e := range events {
						assert.FatalIf(t, own[e.Threshold], "a second event of %v on one node", e.Threshold)
						own[e.Threshold], seen[e.Threshold] = true, true
					}
				}
				if len(seen) != 10 {
					return fmt.Errorf("only %v", seen)
				}
				return nil
			})
		})
	}
}

// TestNotify_override goes by the limit that counts: an override's, a placeholder's, and this node's part of
// it while Redis fails.
func TestNotify_override(t *testing.T) {
	n, server := caddytest.OnRedis(t, "timeout 10s\nlocal_share 50%", `redis_ratelimit {
		name watched
		key {query.k}
		window 400d
		limit {query.limit} 10
		algorithm fixed_window
		notify 50%
		log_keys
	}`+caddytest.ShowDecision)
	n.Override(t, http.StatusOK, `{"policy":"watched","key":"a","limit":4}`)
	n.Await(t, "/?k=a", 0, caddytest.Any, "X-Ratelimit-Limit: 4")
	n.Ratelimit(t, "reset", "--policy", "watched", "--key", "a").Want(t, 0)
	n.Get(t, "/?k=a")
	n.Get(t, "/?k=a")
	e := waitForThresholds(t, n, 50)[0]
	assert.ErrorIf(t, e.Limit != 4 || e.Remaining != 2, "got %+v", e)
	n.GetTimes(t, 3, "/?k=b&limit=6")
	e = waitForThresholds(t, n, 50, 50)[1]
	assert.ErrorIf(t, e.Limit != 6 || e.Remaining != 3, "got %+v", e)
	server.Kill()
	n.Await(t, "/?k=other", 0, "*fallback")
	before := len(thresholdEvents(t, n))
	n.GetTimes(t, 3, "/?k=c") // of 5, which is the half of 10
	assert.Retry(t, "the event of the fallback", func() (again bool, seen any) {
		events := thresholdEvents(t, n)[before:]
		return !slices.ContainsFunc(events, func(e thresholdEvent) bool {
			return e.Key == "c" && e.Source == "fallback" && e.Remaining == 2
		}), events
	})
}

// TestNotify_dryRun tells of a limit that is tried.
func TestNotify_dryRun(t *testing.T) {
	n := caddytest.InProcess(t, notifySite("dry_run"))
	n.GetTimes(t, 8, "/?k=a")
	assert.ErrorIf(t, !waitForThresholds(t, n, 80)[0].DryRun, "the event is not one of a dry run")
}

// TestNotify_silent has no listener, and no event.
func TestNotify_silent(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Quietly(caddytest.Config("", notifySite(""))))
	n.GetTimes(t, 12, "/?k=a")
	assert.Equal(t, thresholdEvents(t, n), nil, "the list of events")
}
