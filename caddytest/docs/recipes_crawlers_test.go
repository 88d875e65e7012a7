package docs

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// crowdedHouse is 20 people and a crawler at one address, for ten seconds: how many pages and what they load opened.
type crowdedHouse struct{ pages, opened, parts, loaded, waits, crawled atomic.Int64 }

func (h *crowdedHouse) play(t *testing.T, e recipeEnv) {
	t.Helper()
	e.Client.Timeout = 30 * time.Second
	stop := make(chan struct{})
	var people, crawler sync.WaitGroup
	crawler.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			a, err := e.Try(http.MethodGet, e.URL+"/archive", "", "Accept: text/html")
			assert.ErrorIf(t, err != nil, "%v", err)
			if a.Status == http.StatusOK {
				h.crawled.Add(1)
			}
		}
	})
	e.Await(t, "/archive", http.StatusTooManyRequests, caddytest.Any) // the crawler has used the quota up
	begin := time.Now()
	for range 20 {
		people.Go(func() {
			person := &caddytest.Visitor{Node: e.Node}
			for time.Since(begin) < 10*time.Second {
				h.pages.Add(1)
				a, err := person.Open("/page", 3)
				assert.ErrorIf(t, err != nil, "%v", err)
				if a.Status == http.StatusOK {
					h.opened.Add(1)
					for range 3 {
						h.parts.Add(1)
						if part, err := person.Load(http.MethodGet, e.URL+"/style.css"); err == nil && part.Status == http.StatusOK {
							h.loaded.Add(1)
						}
					}
				}
				<-time.After(time.Second)
			}
			h.waits.Add(int64(person.Waits))
		})
	}
	people.Wait()
	close(stop)
	crawler.Wait()
	t.Logf("%d of %d pages opened, and %d of the %d requests for their parts; %d waits; the crawler got %d", h.opened.Load(), h.pages.Load(), h.loaded.Load(), h.parts.Load(), h.waits.Load(), h.crawled.Load())
}

func recipeCrawlers(t *testing.T, e recipeEnv) {
	for _, path := range []string{"/robots.txt", "/sitemap.xml", "/feed.xml", "/health"} {
		e.Get(t, path).WantFree(t)
	}
	var house crowdedHouse
	house.play(t, e)
	assert.ErrorIf(t, house.opened.Load()*10 < house.pages.Load()*9, "too few pages opened")
	assert.ErrorIf(t, house.crawled.Load() > 2*60, "the crawler got more than the limit")
	text := e.Send(t, http.MethodGet, e.Admin+"/metrics", "").Body
	assert.ErrorIf(t, !strings.Contains(text, `challenges_total{outcome="passed"}`), "no client has passed")
}

// recipeCrawlersWithout is what the challenge is compared with.
func recipeCrawlersWithout(t *testing.T, e recipeEnv) {
	var house crowdedHouse
	house.play(t, e)
	assert.ErrorIf(t, house.opened.Load()*2 > house.pages.Load(), "without a challenge most pages opened")
}
