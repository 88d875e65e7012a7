package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// kind is what a person comes with, as far as it decides who gets in.
type kind string

const (
	home        kind = "home"          // an address and a browser of their own
	office      kind = "office"        // an address with hundreds of others
	carrier     kind = "carrier"       // as an office, of a mobile carrier
	known       kind = "known"         // a log-in was checked in front
	slowLine    kind = "slow line"     // of a train
	noCookies   kind = "no cookies"    // the browser loads files and keeps no cookies
	textBrowser kind = "text browsers" // cookies, and no files
)

// kinds are the kinds with their parts of all people, in percent.
var kinds = []struct {
	kind    kind
	percent int
}{{noCookies, 5}, {textBrowser, 5}, {slowLine, 5}, {office, 10}, {carrier, 10}, {known, 15}, {home, 50}}

// slowDelay is the time that a slow line takes in each direction.
const slowDelay = 350 * time.Millisecond

// visit is what a person does.
type visit struct {
	begins  time.Duration // from the start of the run
	kind    kind
	address string
	clicks  [clicks]click
}

// click is a page that a person wants.
type click struct {
	after time.Duration // the page before it
	path  string
}

// planVisits returns all visits of a run.
func planVisits(random *rand.Rand, perSecond func(time.Duration) float64) (visits []visit) {
	for at := time.Duration(0); ; {
		at += untilNext(random, perSecond(at))
		if at > lastArrive {
			return visits
		}
		visits = append(visits, planVisit(random, at))
	}
}

func planVisit(random *rand.Rand, begins time.Duration) visit {
	v := visit{begins: begins, kind: kindOf(random.IntN(100))}
	v.address = addressOf(random, v.kind)
	for i := range v.clicks {
		c := &v.clicks[i]
		if i > 0 {
			c.after = between(random, time.Second, 3*time.Second)
		}
		switch n := random.IntN(100); {
		case n < 3:
			c.path = fmt.Sprintf("/search?q=w%d", random.IntN(100))
		case i == 0 && n < 34:
			c.path = "/"
		default:
			c.path = fmt.Sprintf("/p/%d", random.IntN(50))
		}
	}
	return v
}

// kindOf returns the kind of one of a hundred people.
func kindOf(n int) kind {
	for _, k := range kinds {
		if n -= k.percent; n < 0 {
			return k.kind
		}
	}
	return home
}

func addressOf(random *rand.Rand, k kind) string {
	switch k {
	case office:
		return fmt.Sprintf("85.%d.9.9", random.IntN(3))
	case carrier:
		return fmt.Sprintf("90.1.2.%d", random.IntN(4))
	default:
		return homeAddress(random)
	}
}

// homeAddress returns an address of the 40 networks, /16, that the site's people have, some larger than others.
func homeAddress(random *rand.Rand) string {
	n := int(40 * random.Float64() * random.Float64())
	return fmt.Sprintf("%d.%d.%d.%d", 80+n%10, 10+n, random.IntN(256), 1+random.IntN(250))
}

// ofPerson is the class of people's requests.
const ofPerson = "person"

// clientOf returns the browser of a visit's person.
func clientOf(s *site, v visit) *client {
	c := newClient(s, ofPerson, v.address, "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
	c.waits = true
	if v.kind != noCookies {
		c.keepCookies()
	}
	if v.kind == textBrowser {
		c.header.Set("User-Agent", "Lynx/2.9.2 libwww-FM/2.14")
	} else {
		c.loads, c.asks = true, browserPage
	}
	if v.kind == slowLine {
		c.delay = slowDelay
	}
	if v.kind == known {
		c.header.Set("Remote-User", "customer") // of the proxy in front
	}
	return c
}

// make makes a visit, and tells the outcome of its clicks. It ends with a page that does not come.
func (v visit) make(ctx context.Context, s *site, tell func(outcome)) (finished bool) {
	c := clientOf(s, v)
	for i, click := range v.clicks {
		if sleep(ctx, click.after) != nil {
			return false
		}
		o := c.click(ctx, click.path, i == 0)
		tell(o)
		if !o.came {
			return false
		}
	}
	return true
}

// outcome is what came of a click.
type outcome struct {
	came    bool
	took    time.Duration // until the page came or patience ended
	waited  int           // pages that waited
	refused int           // answers that were no page, and made the person reload
}

// click opens a page with the patience of a person, and loads its files: fewer for later pages, as a browser keeps some.
func (c *client) click(ctx context.Context, path string, first bool) (o outcome) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	var last answer
	for try := 0; try <= reloads && !o.came && (try == 0 || sleep(ctx, reloadAfter) == nil); try++ {
		var waited int
		var err error
		last, waited, err = c.open(ctx, host+path)
		o.waited += waited
		o.came = err == nil && last.isPage()
		if err == nil && !o.came {
			o.refused++
		}
	}
	o.took = time.Since(began)
	if o.came && c.loads {
		c.loadAll(ctx, last.url, files(first))
	}
	return o
}

// files returns those of a page that a browser asks for.
func files(first bool) (paths []string) {
	n := 2
	if first {
		n = 6
	}
	for i := range n {
		paths = append(paths, fmt.Sprintf("/static/%d.css", i))
	}
	return paths
}
