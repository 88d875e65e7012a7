package reliability

import (
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// settingsChange is a reload while requests run and wait, and what runs and waits by the new settings.
type settingsChange struct {
	before, after string   // the line of max_concurrent, and what follows it
	runs          int      // before
	waiting       []string // their headers
	started       int      // of those that wait, by the reload alone
	refused       int      // likewise
}

// TestReload_waiting_settings has other settings of a policy count at once for requests that wait.
func TestReload_waiting_settings(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		n := caddytest.Start(t, caddytest.Config(option, "respond none"))
		for name, test := range map[string]settingsChange{
			"higher limit": {"max_concurrent 1", "max_concurrent 3", 1, []string{"", "", ""}, 2, 0},
			"lower limit":  {"max_concurrent 2", "max_concurrent 1", 2, []string{"", ""}, 0, 0},
			"below weight": {"max_concurrent 4\nweight {header.X-Weight} 1", "max_concurrent 2\nweight {header.X-Weight} 1", 4,
				[]string{"X-Weight: 1", "X-Weight: 3"}, 0, 1},
			"other fallback": {"max_concurrent {header.X-Places} 1", "max_concurrent {header.X-Places} 3", 1,
				[]string{"", "X-Places: 2", "X-Places: 1"}, 1, 0},
			"fixed":           {"max_concurrent {header.X-Places} 1", "max_concurrent 2", 1, []string{"X-Places: 1"}, 1, 0},
			"another source":  {"max_concurrent {header.X-Places} 1", "max_concurrent {header.X-Plan} 2", 1, []string{"X-Places: 1"}, 0, 0},
			"unlimited":       {"max_concurrent {header.X-Places} 1", "max_concurrent {header.X-Places} unlimited", 1, []string{"", "X-Places: 1"}, 1, 0},
			"policy has gone": {"max_concurrent 1", "", 1, []string{""}, 0, 0},
		} {
			upstream := caddytest.NewHolder(t)
			site := strings.Replace(waitingSite(1, upstream.Addr), "wait 10m", "wait 10m 100", 1)
			n.Reload(t, caddytest.Config(option, strings.Replace(site, "max_concurrent 1", test.before, 1)))
			for range test.runs {
				upstream.Begin(t, n, "/")
			}
			var waiting []func() []caddytest.Response
			for _, header := range test.waiting {
				waiting = append(waiting, beginWaiting(t, n, 1, "/", headersOf(header)...))
			}
			changed := "redis_ratelimit {\nname others\nkey same\nmax_concurrent 1\n}"
			if test.after != "" {
				changed = strings.Replace(site, "max_concurrent 1", test.after, 1)
			}
			n.Reload(t, caddytest.Config(option, changed))
			upstream.WaitRunning(t, test.runs+test.started)
			n.CheckMetric(t, "held_requests", float64(len(waiting)-test.started-test.refused))
			for range test.runs - 1 {
				upstream.EndOne()
			}
			if name == "lower limit" { // no request has begun in the place of the one that has ended
				n.CheckMetric(t, `running{policy="places"}`, 1)
				n.CheckMetric(t, "held_requests", 2)
			}
			upstream.EndAll()
			refused := 0
			for _, responses := range waiting {
				if a := responses()[0]; a.Status == http.StatusTooManyRequests {
					refused++
				} else {
					a.Want(t, http.StatusOK, caddytest.Any)
				}
			}
			assert.Equal(t, refused, test.refused, "%s: requests that are refused", name)
			n.Reload(t, caddytest.Config(option, waitingSite(1, upstream.Addr)))
			n.WaitForRefund(t, "places", "same", 1)
			n.CheckMetric(t, "held_requests", 0)
		}
	})
}

// headersOf returns the headers of a request that has one, or none.
func headersOf(header string) (headers []string) {
	if header != "" {
		headers = append(headers, header)
	}
	return headers
}

// TestReload_waiting_failed loads a configuration with another limit whose server cannot start: it counts for none that waits.
func TestReload_waiting_failed(t *testing.T) {
	t.Parallel()
	upstream := caddytest.NewHolder(t)
	text := caddytest.Config("", waitingSite(1, upstream.Addr))
	n := caddytest.Start(t, text)
	upstream.Begin(t, n, "/")
	waiting := beginWaiting(t, n, 2, "/")
	taken := "\nhttp://" + upstream.Addr + " {\nrespond taken\n}\n"
	a := n.Load(t, strings.Replace(text, "max_concurrent 1", "max_concurrent 2", 1)+taken)
	assert.ErrorIf(t, a.Status == http.StatusOK, "the load has the status %d", a.Status)
	upstream.EndOne()
	upstream.WaitRunning(t, 1)
	n.CheckMetric(t, "held_requests", 1)
	upstream.EndAll()
	wantAll(t, waiting())
}

// TestOverride_waiting changes what applies to requests while they wait.
func TestOverride_waiting(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		upstream := caddytest.NewHolder(t)
		n := caddytest.Start(t, caddytest.Config(option, waitingSite(2, upstream.Addr)))
		override := func(change string) { n.Override(t, http.StatusOK, `{"policy":"places","key":"same",`+change+`}`) }
		upstream.Begin(t, n, "/")
		upstream.Begin(t, n, "/")
		waiting := beginWaiting(t, n, 2, "/")
		override(`"limit":1`)
		upstream.EndOne()
		n.CheckMetric(t, `running{policy="places"}`, 1)
		n.CheckMetric(t, "held_requests", 2)
		override(`"limit":3`)
		upstream.WaitRunning(t, 3)
		wait := beginWaiting(t, n, 2, "/")
		override(`"block":true`)
		for _, a := range wait() {
			a.Want(t, http.StatusTooManyRequests, "denied override")
			assert.Equal(t, a.Header.Get("Retry-After"), "", "Retry-After of a block without an end")
		}
		n.Get(t, "/now").Want(t, http.StatusTooManyRequests, "denied override")
		override(`"remove":true`)
		last := beginWaiting(t, n, 1, "/quick")
		upstream.EndAll()
		wantAll(t, both(waiting, last)())
		n.WaitForRefund(t, "places", "same", 2)
	})
}

// TestOverride_waiting_exempt has requests that wait start once their client is exempted, beside another client's.
func TestOverride_waiting_exempt(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		upstream := caddytest.NewHolder(t)
		n := caddytest.Start(t, caddytest.Config(option, strings.Replace(waitingSite(1, upstream.Addr), "key same", "key {query.k}", 1)))
		started := func() float64 { return n.Metric(t, `wait_seconds_count{outcome="started",policy="places"}`) }
		for round, target := range []string{`"key":"a"`, `"all":true`} {
			a, b := upstream.Begin(t, n, "/?k=a"), upstream.Begin(t, n, "/?k=b")
			told, held := beginWaiting(t, n, 2, "/now?k=a"), beginWaiting(t, n, 1, "/?k=a")
			other := beginWaiting(t, n, 1, "/now?k=b")
			before := started()
			n.Override(t, http.StatusOK, `{"policy":"places",`+target+`,"exempt":true}`)
			for _, r := range told() {
				r.Want(t, http.StatusOK, "exempt override")
			}
			upstream.WaitRunning(t, 3)
			if round == 0 {
				n.CheckMetric(t, "held_requests", 1)
				assert.Equal(t, started()-before, 3.0, "waits that have ended with a start")
			} else {
				other()[0].Want(t, http.StatusOK, "exempt override")
			}
			n.CheckMetric(t, `running{policy="places"}`, 2) // the others have no places
			n.Override(t, http.StatusOK, `{"policy":"places",`+target+`,"remove":true}`)
			for range 3 {
				upstream.EndOne()
			}
			<-a.Ended
			<-b.Ended
			wantAll(t, held())
			if round == 0 {
				other()[0].Want(t, http.StatusOK, "allowed *")
			}
			for _, key := range []string{"a", "b"} {
				n.WaitForRefund(t, "places", key, 1)
			}
		}
	})
}

// TestOverride_waiting_other has a node's override count for requests that wait on another node.
func TestOverride_waiting_other(t *testing.T) {
	t.Parallel()
	option, upstream := caddytest.SharedRedis(t), caddytest.NewHolder(t)
	text := caddytest.Config(option, waitingSite(1, upstream.Addr))
	n, other := caddytest.Start(t, text), caddytest.Start(t, text)
	upstream.Begin(t, n, "/")
	waiting := beginWaiting(t, n, 1, "/now")
	other.Override(t, http.StatusOK, `{"policy":"places","key":"same","exempt":true}`)
	waiting()[0].Want(t, http.StatusOK, "exempt override")
	upstream.EndAll()
}
