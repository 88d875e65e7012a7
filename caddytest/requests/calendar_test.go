package requests

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

const calendarSite = `redis_ratelimit {
		policy monthly {
			key {query.k}
			limit 5
			window month America/Santiago
			weight {query.w} 1
		}
		policy yearly {
			key {query.other}
			limit 100
			window year
		}
		policy hourly {
			key {query.k}
			limit 50
			window 1h
			algorithm fixed_window
		}
		headers x_ratelimit ietf
		usage /quota
	}` + caddytest.ShowDecision

// TestCalendar has a month of a zone on every store: the quota, what clients see of it, and the word.
func TestCalendar(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("America/Santiago")
	if err != nil {
		t.Fatal(err)
	}
	stores := caddytest.Stores(t)
	stores["cluster"] = "redis_ratelimit {\nredis {\nmode cluster\naddress " + redistest.StartCluster(t)[0].Addr + "\n}\ntimeout 10s\n}"
	for store, option := range stores {
		t.Run(store, func(t *testing.T) {
			n := caddytest.Start(t, caddytest.Config(option, calendarSite))
			for i := range 4 { // keys of several slots
				k := fmt.Sprint("k", i)
				begins := time.Now().In(zone)
				ends := time.Date(begins.Year(), begins.Month()+1, 1, 0, 0, 0, 0, zone)
				if time.Until(ends) < time.Minute {
					t.Skip("a month of Santiago ends while this runs")
				}
				passed := n.Get(t, "/?w=3&k="+k+"&other="+k)
				if passed.Status != http.StatusOK || passed.Header.Get("X-RateLimit-Limit") != "5" || passed.Header.Get("X-RateLimit-Remaining") != "2" {
					t.Fatal(passed)
				}
				reset, _ := strconv.ParseInt(passed.Header.Get("X-RateLimit-Reset"), 10, 64)
				if difference := reset - ends.Unix(); difference < -1 || difference > 1 {
					t.Errorf("reset at %d, the month ends at %d", reset, ends.Unix())
				}
				if policies := strings.Join(passed.Header.Values("RateLimit-Policy"), ", "); policies != `"monthly";q=5, "yearly";q=100, "hourly";q=50;w=3600` {
					t.Errorf("RateLimit-Policy: %s", policies)
				}
				denied := n.Get(t, "/?w=3&k="+k+"&other="+k)
				if denied.Status != http.StatusTooManyRequests || denied.Header.Get("Retry-After") == "" {
					t.Fatal(denied)
				}
				retry, _ := strconv.ParseInt(denied.Header.Get("Retry-After"), 10, 64)
				after := time.Duration(retry)*time.Second - ends.Sub(denied.Sent)
				if after > 2*time.Second || after+denied.Took < -2*time.Second {
					t.Errorf("Retry-After is %d, the month ended %v after %v", retry, ends.Sub(denied.Sent), denied)
				}
				quotas := caddytest.ParseJSON[struct {
					Policies []struct {
						Name      string
						Remaining int64
						Window    any
					}
				}](t, n.Get(t, "/quota?k="+k+"&other="+k)).Policies
				if got := fmt.Sprint(quotas); got != "[{monthly 2 month} {yearly 99 year} {hourly 49 3600}]" {
					t.Errorf("the page of quotas: %s", got)
				}
			}
		})
	}
}
