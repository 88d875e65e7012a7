package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// The programs that a site wants, in the order of the table.
const (
	searchEngine = "search engine"
	feedReaders  = "feed readers"
	monitor      = "monitor"
	apiClient    = "API client"
)

var wanted = []string{searchEngine, feedReaders, monitor, apiClient}

// googlebot is what the search engine calls itself, and so do the bots of flood F.
const googlebot = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"

// program calls a path again and again.
type program struct {
	name  string
	path  string // empty: pages at random
	every time.Duration
	client
}

// programs returns those of a run.
func programs(s *site) []*program {
	call := func(name, path string, every time.Duration, address, agent, accepts string) *program {
		p := &program{name, path, every, *newClient(s, name, address, agent)}
		p.asks = http.Header{"Accept": {accepts}}
		return p
	}
	api := call(apiClient, "/api/items", time.Second, "93.184.1.1", "go-client/1", "application/json")
	api.header.Set("X-Api-Key", "key-of-acme")
	return []*program{
		call(searchEngine, "", time.Second, "66.249.66.3", googlebot, plainPage.Get("Accept")),
		call(feedReaders, "/feed.xml", 2*time.Second, "84.14.7.30", "Miniflux/2.2", "application/rss+xml, */*"),
		call(feedReaders, "/feed.xml", 2*time.Second, "84.14.7.31", "Miniflux/2.2", "application/rss+xml, */*"),
		call(monitor, "/health", time.Second, "192.0.2.10", "uptime/1.0", "*/*"),
		api,
	}
}

// run calls until the context ends, and tells when each call began and whether its answer came soon.
func (p *program) run(ctx context.Context, random *rand.Rand, tell func(began time.Time, came bool)) {
	for sleep(ctx, between(random, p.every/2, p.every*3/2)) == nil {
		path := p.path
		if path == "" {
			path = fmt.Sprintf("/p/%d", random.IntN(5000))
		}
		began := time.Now()
		came := p.call(ctx, path)
		if ctx.Err() == nil { // a call that the end of the run cuts off tells nothing
			tell(began, came)
		}
	}
}

// call reports whether the answer came soon.
func (p *program) call(ctx context.Context, path string) bool {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	a, err := p.get(ctx, host+path, p.asks)
	return err == nil && a.isPage()
}
