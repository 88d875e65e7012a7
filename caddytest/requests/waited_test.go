package requests

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestWaited tells handlers and the access log for how long a request has waited for a place: in vain, not at all,
// and until its client left.
func TestWaited(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		upstream := caddytest.NewHolder(t)
		n := caddytest.Start(t, caddytest.Config(option, `log
	@short not path /long
	redis_ratelimit @short {
		policy places { key {query.k}; max_concurrent 1; wait 50ms }
	}
	redis_ratelimit /long {
		policy long { key {query.k}; max_concurrent 1; wait 1m }
	}
	@quick path /quick
	respond @quick <{http.redis_ratelimit.waited}>
	reverse_proxy `+upstream.Addr+`
	handle_errors { respond "{http.redis_ratelimit.waited}" }`))
		logged := func(path string) (waited *float64) {
			t.Helper()
			assert.WaitFor(t, path+" is logged", func() error {
				lines := n.Log.Lines(func(l caddytest.LogLine) bool {
					return strings.HasPrefix(l.Logger, "http.log.access") && strings.Contains(l.Text, `"uri":"`+path)
				})
				if len(lines) == 0 {
					return io.EOF
				}
				var fields struct {
					Waited *float64 `json:"ratelimit_waited"`
				}
				err := json.Unmarshal([]byte(lines[0].Text), &fields)
				waited = fields.Waited
				return err
			})
			return waited
		}
		upstream.Begin(t, n, "/?k=a")
		refused := n.Get(t, "/quick?k=a").Want(t, http.StatusTooManyRequests, caddytest.Any)
		waited := assert.NoError(strconv.ParseFloat(refused.Body, 64))(t)
		assert.ErrorIf(t, waited < 0.05, "a request that waits for 50 ms has waited for %v s", waited)
		inLog := logged("/quick?k=a")
		assert.FatalIf(t, inLog == nil || *inLog < 0.05 || *inLog-waited > 1e-3 || waited-*inLog > 1e-3, "the log has %v, want %v", inLog, waited)
		upstream.Begin(t, n, "/long?k=a")
		r, leave := context.WithCancel(t.Context())
		left := assert.NoError(http.NewRequestWithContext(r, http.MethodGet, n.URL+"/long?k=a&left", http.NoBody))(t)
		ended := make(chan error, 1)
		go func() {
			response, err := http.DefaultClient.Do(left)
			if err == nil {
				_ = response.Body.Close()
			}
			ended <- err
		}()
		n.CheckMetric(t, "held_requests", 1)
		leave()
		assert.ErrorIf(t, <-ended == nil, "a request whose client leaves is answered")
		inLog = logged("/long?k=a&left")
		assert.ErrorIf(t, inLog == nil || *inLog <= 0 || *inLog > 30, "a request whose client has left has waited for %v", inLog)
		upstream.EndAll()
		n.CheckMetric(t, `running{policy="places"}`, 0)
		n.WaitForRefund(t, "places", "a", 1) // which Redis learns later
		tries := 0
		assert.Retry(t, "a request that starts at once has hardly waited", func() (again bool, seen any) { // its decision takes time
			tries++
			path := fmt.Sprint("/quick?k=a&again=", tries, ".")
			passed := n.Get(t, path).Want(t, http.StatusOK, caddytest.Any)
			waited = assert.NoError(strconv.ParseFloat(strings.Trim(passed.Body, "<>"), 64))(t)
			inLog = logged(path)
			return waited >= 0.05 || inLog != nil && *inLog >= 0.05, fmt.Sprint(waited, " s, in the log ", inLog)
		})
	})
}
