package redisratelimit

import (
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/crawlers"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/options"
)

// The words of a crawler's block, and those of the block crawlers that are no names of crawlers.
var (
	crawlerOptions     = []string{"agent", "names", "ranges"}
	allCrawlersOptions = []string{"resolver", "wait"}

	crawlerBlocks = options.Blocks{{Place: "the block of a crawler in crawlers { ... } of the global option", Options: crawlerOptions}}
)

// parseCrawlers reads which crawlers there are: those of the table behind the word, then those of the block. Each word of
// the block but resolver and wait is the name of one.
func parseCrawlers(d *caddyfile.Dispenser) (*Crawlers, error) {
	c, at := new(Crawlers), options.Lines{"": *d}
	for _, name := range d.RemainingArgs() {
		if slices.Contains(allCrawlersOptions, name) {
			return nil, d.Errf("%s stands in the block of crawlers; write it there", name)
		}
		if err := at.Once(d, name); err != nil {
			return nil, err
		}
		c.Known = append(c.Known, shippedCrawler(&Crawler{Name: name}))
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		word := d.Val()
		if err := at.Once(d, word); err != nil {
			return nil, err
		}
		if err := c.parseLine(d, word); err != nil {
			return nil, err
		}
	}
	if err := c.check(); err != nil {
		return nil, at.Wrap(err)
	}
	return c, nil
}

func (c *Crawlers) parseLine(d *caddyfile.Dispenser, word string) (err error) {
	switch word {
	case "resolver":
		c.Resolver, err = options.Value(d)
	case "wait":
		c.Wait, err = parseCrawlerWait(d)
	default:
		var known *Crawler
		known, err = parseCrawler(d, word)
		c.Known = append(c.Known, known)
	}
	return err
}

func parseCrawlerWait(d *caddyfile.Dispenser) (*caddy.Duration, error) {
	value, err := options.Value(d)
	wait := caddy.Duration(0)
	if err == nil && value != "off" {
		wait, err = options.Duration(d, "wait", value, 1, crawlerWaitBounds)
	}
	return &wait, err
}

// parseCrawler reads a crawler. What a name of the table lacks is that of the table, written out.
func parseCrawler(d *caddyfile.Dispenser, name string) (*Crawler, error) {
	if d.NextArg() {
		return nil, d.Errf("%s takes no values, only a block with agent, names or ranges", name)
	}
	known := &Crawler{Name: name}
	fields := map[string]*[]string{"agent": &known.Agents, "names": &known.Names, "ranges": &known.Ranges}
	_, err := crawlerBlocks.Each(d, crawlerOptions, func(option string) error {
		*fields[option] = d.RemainingArgs()
		if len(*fields[option]) == 0 || slices.Contains(*fields[option], "") {
			return d.Errf("%s takes at least one value, and none that is empty", option)
		}
		return nil
	})
	return shippedCrawler(known), err
}

// shippedCrawler adds to a crawler, as far as nothing is written of it, what the table of its name has.
func shippedCrawler(known *Crawler) *Crawler {
	shipped, _ := crawlers.ShippedAs(known.Name)
	if len(known.Agents) == 0 {
		known.Agents = slices.Clone(shipped.Words)
	}
	if len(known.Names) == 0 {
		known.Names = slices.Clone(shipped.Suffixes)
	}
	return known
}
