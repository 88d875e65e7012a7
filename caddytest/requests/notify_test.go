package requests

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
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
		if err := json.Unmarshal([]byte(line.Text), &logged); err != nil {
			t.Fatal(err)
		}
		events = append(events, logged.Data)
	}
	return events
}

// waitForThresholds waits for events of so many marks, in any order, and fails where there are more.
func waitForThresholds(t *testing.T, n *caddytest.Node, want ...float64) []thresholdEvent {
	t.Helper()
	var events []thresholdEvent
	redistest.WaitFor(t, fmt.Sprintf("the events %v", want), func() error {
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
	return "redis_ratelimit {\nname watched\nkey {query.k}\nlimit 10\nwindow 24h\nalgorithm fixed_window\nnotify 80% 100%\n" + options + "\n}\nrespond /401 401\nrespond {query.body} 200\n"
}

// TestNotify_take reaches both marks, once each, whatever comes after.
func TestNotify_take(t *testing.T) {
	t.Parallel()
	caddytest.OnBothStores(t, func(t *testing.T, option, source string) {
		n := caddytest.Start(t, caddytest.Config(option, notifySite("log_keys")))
		for range 7 {
			n.Get(t, "/?k=a")
		}
		n.Get(t, "/?k=b")
		if events := thresholdEvents(t, n); len(events) > 0 {
			t.Errorf("got %+v for 7 of 10", events)
		}
		n.Get(t, "/?k=a")
		e := waitForThresholds(t, n, 80)[0]
		if e.Key != "a" || e.Limit != 10 || e.Remaining != 2 || e.Source != source || e.DryRun {
			t.Errorf("got %+v", e)
		}
		for range 10 {
			n.Get(t, "/?k=a")
		}
		if e := waitForThresholds(t, n, 80, 100)[1]; e.Remaining != 0 {
			t.Errorf("got %+v", e)
		}
		n.Ratelimit(t, "reset", "--policy", "watched", "--key", "a").Want(t, 0)
		for range 10 { // the same window
			n.Get(t, "/?k=a")
		}
		for range 9 {
			n.Get(t, "/?k=b")
		}
		waitForThresholds(t, n, 80, 80, 100, 100)
		n.Ratelimit(t, "policies").Want(t, 0, "notify 80% 100%")
	})
}

// TestNotify_nodes reaches a mark by requests on two nodes: one of them tells of it.
func TestNotify_nodes(t *testing.T) {
	t.Parallel()
	masters := redistest.StartCluster(t)
	option := "redis_ratelimit {\nredis {\nmode cluster\naddress " + masters[0].Addr + "\n}\ntimeout 10s\n}"
	one, two := caddytest.Start(t, caddytest.Config(option, notifySite(""))), caddytest.Start(t, caddytest.Config(option, notifySite("")))
	for i := range 10 {
		[]*caddytest.Node{one, two}[i%2].Get(t, "/?k=a")
	}
	if e := waitForThresholds(t, two, 80, 100)[0]; e.Key != "" {
		t.Errorf("an event has a key without log_keys: %+v", e)
	}
	if events := thresholdEvents(t, one); len(events) > 0 {
		t.Errorf("the other node tells of %+v", events)
	}
}

// TestNotify_charge reaches marks by what responses cost.
func TestNotify_charge(t *testing.T) {
	t.Parallel()
	caddytest.OnBothStores(t, func(t *testing.T, option, source string) {
		n := caddytest.Start(t, caddytest.Config(option, notifySite("charge response_bytes")))
		n.Get(t, "/?k=a&body=123456") // 7 of 10
		if e := n.Get(t, "/?k=b&body=1234567"); e.Status != http.StatusOK {
			t.Fatal(e)
		}
		if e := waitForThresholds(t, n, 80)[0]; e.Remaining != 2 || e.Source != source {
			t.Errorf("got %+v", e)
		}
		n.Get(t, "/?k=c&body=12345678901234567890")
		waitForThresholds(t, n, 80, 80, 100)
	})
}

// TestNotify_countIf tells of units that stay, and not of those that are refunded.
func TestNotify_countIf(t *testing.T) {
	t.Parallel()
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		n := caddytest.Start(t, caddytest.Config(option, notifySite("count_if status 401")))
		for range 7 {
			n.Get(t, "/401?k=a")
		}
		for range 3 {
			n.Get(t, "/?k=a")
			n.WaitForRefund(t, "watched", "a", 3)
		}
		n.Get(t, "/401?k=b")
		if events := thresholdEvents(t, n); len(events) > 0 {
			t.Errorf("got %+v for units that are refunded", events)
		}
		n.Get(t, "/401?k=a")
		waitForThresholds(t, n, 80)
	})
}

// TestNotify_override goes by the limit that counts: an override's, a placeholder's, and this node's part of
// it while Redis fails.
func TestNotify_override(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const policy = "key {query.k}\nlimit {query.limit} 10\nwindow 24h\nalgorithm fixed_window\nnotify 50%\n"
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\nredis redis://"+server.Addr+"\ntimeout 10s\nlocal_share 0.5\n}",
		"redis_ratelimit {\nname watched\n"+policy+"log_keys\n}"+caddytest.ShowDecision))
	if a := n.Ask(t, http.MethodPost, "override", `{"policy":"watched","key":"a","limit":4}`); a.Status != http.StatusOK {
		t.Fatal(a)
	}
	redistest.WaitFor(t, "the override applies", func() error {
		if a := n.Get(t, "/?k=a"); a.Header.Get("X-Ratelimit-Limit") != "4" {
			return errors.New("not yet")
		}
		return nil
	})
	n.Ratelimit(t, "reset", "--policy", "watched", "--key", "a").Want(t, 0)
	n.Get(t, "/?k=a")
	n.Get(t, "/?k=a")
	if e := waitForThresholds(t, n, 50)[0]; e.Limit != 4 || e.Remaining != 2 {
		t.Errorf("got %+v", e)
	}
	for range 3 {
		n.Get(t, "/?k=b&limit=6")
	}
	if e := waitForThresholds(t, n, 50, 50)[1]; e.Limit != 6 || e.Remaining != 3 {
		t.Errorf("got %+v", e)
	}
	server.Kill()
	redistest.WaitFor(t, "the node decides by itself", func() error {
		if a := n.Get(t, "/?k=other"); !strings.HasSuffix(a.Body, "fallback") {
			return fmt.Errorf("got %v", a)
		}
		return nil
	})
	before := len(thresholdEvents(t, n))
	for range 3 { // of 5, which is the half of 10
		n.Get(t, "/?k=c")
	}
	redistest.WaitFor(t, "the event of the fallback", func() error {
		for _, e := range thresholdEvents(t, n)[before:] {
			if e.Key == "c" && e.Source == "fallback" && e.Remaining == 2 {
				return nil
			}
		}
		return errors.New("none")
	})
}

// TestNotify_dryRun tells of a limit that is tried.
func TestNotify_dryRun(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", notifySite("dry_run")))
	for range 8 {
		n.Get(t, "/?k=a")
	}
	if e := waitForThresholds(t, n, 80)[0]; !e.DryRun {
		t.Errorf("got %+v", e)
	}
}

// TestNotify_silent has no listener, and no event.
func TestNotify_silent(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Quietly(caddytest.Config("", notifySite(""))))
	for range 12 {
		n.Get(t, "/?k=a")
	}
	if events := thresholdEvents(t, n); len(events) > 0 {
		t.Errorf("got %+v", events)
	}
}
