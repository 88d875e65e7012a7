package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// flood is what comes beside people and programs.
type flood struct {
	name      string
	title     string
	perSecond float64                               // requests of all bots
	bots      int                                   // that take part
	bot       func(b *client, random *rand.Rand)    // makes a bot of one that sends a browser's header and keeps nothing
	address   func(i int, random *rand.Rand) string // of bot i
	run       func(f *runOf, ctx context.Context)   // instead of bots
	people    float64                               // times as many people come
}

// floods are those of the table, in its order.
var floods = []flood{
	{name: "0", title: "no flood"},
	{name: "A", title: "one address", perSecond: 100, bots: 1, address: oneAddress},
	{name: "B", title: "one /16", perSecond: 100, bots: 2000, address: oneNetwork},
	{name: "C", title: "from everywhere", perSecond: 300, bots: 10_000, address: everywhere},
	{name: "D", title: "keep cookies, follow pages", perSecond: 300, bots: 10_000, address: everywhere, bot: func(b *client, _ *rand.Rand) {
		b.keepCookies().waits = true
	}},
	{name: "D0", title: "follow pages, keep nothing", perSecond: 300, bots: 10_000, address: everywhere, bot: func(b *client, _ *rand.Rand) {
		b.waits = true
	}},
	{name: "D+", title: "as D, and load files", perSecond: 300, bots: 10_000, address: everywhere, bot: func(b *client, _ *rand.Rand) {
		b.keepCookies().waits, b.loads = true, true
	}},
	{name: "E", title: "200 slow readers", run: (*runOf).readSlowly},
	{name: "E+", title: "as E, with passes", run: (*runOf).readWithPasses},
	{name: "F", title: "say Googlebot", perSecond: 300, bots: 10_000, address: everywhere, bot: func(b *client, _ *rand.Rand) {
		b.header.Set("User-Agent", googlebot)
		b.asks = plainPage
	}},
	{name: "G", title: "forge cookies", perSecond: 300, bots: 10_000, address: everywhere, bot: forge},
	{name: "H", title: "4 times the people", people: crowd},
}

const (
	ofFloods = "flood" // the class of bots' requests
	chrome   = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"
)

func oneAddress(int, *rand.Rand) string { return "203.0.113.7" }

func oneNetwork(_ int, random *rand.Rand) string {
	return fmt.Sprintf("45.77.%d.%d", random.IntN(256), 1+random.IntN(250))
}

// everywhere has a tenth of the bots come out of people's own networks.
func everywhere(i int, random *rand.Rand) string {
	if i%10 == 0 {
		return homeAddress(random)
	}
	return fmt.Sprintf("%d.%d.%d.%d", 1+random.IntN(222), random.IntN(256), random.IntN(256), 1+random.IntN(250))
}

// forge has a bot send cookies of its invention.
func forge(b *client, random *rand.Rand) {
	b.header.Set("Cookie", fmt.Sprintf("session=x%08x; rl-pass=%016x%016[2]x; rl-wait=1", random.Uint32(), random.Uint64()))
}

// newBots returns the bots of a run.
func (f flood) newBots(s *site, random *rand.Rand) []*client {
	bots := make([]*client, f.bots)
	for i := range bots {
		bots[i] = newClient(s, ofFloods, f.address(i, random), chrome)
		bots[i].asks = browserPage
		if f.bot != nil {
			f.bot(bots[i], random)
		}
	}
	return bots
}

// botPatience bounds what a bot does for a page.
const botPatience = 12 * time.Second

// sendBots sends a flood's requests until the context ends.
func (r *runOf) sendBots(ctx context.Context) {
	random := newRandom(r.seed, ofFlood)
	bots := r.flood.newBots(r.site, random)
	due := time.Now()
	for {
		due = due.Add(untilNext(random, r.flood.perSecond)) // what one request takes to begin delays no other
		path := botPath(random)
		bot := bots[random.IntN(len(bots))]
		if sleep(ctx, time.Until(due)) != nil {
			return
		}
		go r.sendBot(ctx, bot, path)
	}
}

func (r *runOf) sendBot(ctx context.Context, bot *client, path string) {
	ctx, cancel := context.WithTimeout(ctx, botPatience)
	defer cancel()
	began := time.Now()
	last, _, err := bot.open(ctx, host+path)
	r.tally.bot(r.at(began), err == nil && last.isPage())
}

// botPath is deep, or a search that no cache has.
func botPath(random *rand.Rand) string {
	if random.IntN(10) == 0 {
		return fmt.Sprintf("/search?q=%x", random.Uint64())
	}
	return fmt.Sprintf("/p/%d/%d/%d", random.IntN(1000), random.IntN(1000), random.IntN(1000))
}
