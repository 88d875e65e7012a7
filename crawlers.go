package redisratelimit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminserver"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/crawlers"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/options"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// Crawlers says which crawlers there are, and how a request that claims to come from one is known to.
type Crawlers struct {
	// The crawlers, 1 to 64. Of several with one word the first that is verified counts.
	Known []*Crawler `json:"known,omitempty"`

	// The resolver that is asked for the names of addresses: an address, and a port unless it is 53. Takes placeholders. Default:
	// that of the system.
	Resolver string `json:"resolver,omitempty"`

	// How long the first request of an address that claims a crawler with names waits for the DNS, up to 2s. 0: not at all.
	// Default: 250ms.
	Wait *caddy.Duration `json:"wait,omitempty"`
}

// Crawler is a crawler, with the ways to know it. One of them is enough.
type Crawler struct {
	// What the crawler is called here: 1 to 64 letters, digits, `_` and `-`.
	Name string `json:"name,omitempty"`

	// Words of which one is in the crawler's User-Agent, in any case, each of at least 4 characters. At least one.
	Agents []string `json:"agents,omitempty"`

	// With one of which the names of its hosts end, such as `.googlebot.com`. The DNS has such a name for the client's address, and
	// the address for the name.
	Names []string `json:"names,omitempty"`

	// Files with the ranges of its hosts, JSON or lines, which are read again when they change. Paths take placeholders.
	Ranges []string `json:"ranges,omitempty"`
}

const (
	defaultCrawlerWait = 250 * time.Millisecond
	maxCrawlerWait     = 2 * time.Second
	maxCrawlers        = 64
	maxCrawlerWords    = 512
	portOfDNS          = 53

	crawlerWaitBounds     = "off, or a duration of at most 2s"
	crawlerResolverBounds = "an address such as 127.0.0.53, with a port unless it is 53: 127.0.0.1:5353"
)

// check refuses what cannot work whatever the placeholders hold. Crawlers of nil are none.
func (c *Crawlers) check() error {
	if c == nil {
		return nil
	}
	if err := c.mistake(); err != nil {
		return fmt.Errorf("crawlers: %w", err)
	}
	return nil
}

// mistake returns the first mistake, whose text begins with the option or the crawler.
func (c *Crawlers) mistake() error {
	words := 0
	for i, known := range c.Known {
		if known == nil {
			return fmt.Errorf("known[%d]: null; write a crawler, or leave it out", i)
		}
		if err := crawlers.Check(known.Name, known.Agents, known.Names, len(known.Ranges) > 0); err != nil {
			return err
		}
		if slices.ContainsFunc(c.Known[:i], func(k *Crawler) bool { return k.Name == known.Name }) {
			return fmt.Errorf("%s: is given twice; leave one out", known.Name)
		}
		if slices.Contains(known.Ranges, "") {
			return fmt.Errorf("%s: ranges: empty; write the path of a file", known.Name)
		}
		words += len(known.Agents)
	}
	switch {
	case len(c.Known) == 0 || len(c.Known) > maxCrawlers:
		return fmt.Errorf("name from 1 to %d crawlers; these are known by their names alone: %s",
			maxCrawlers, strings.Join(crawlers.ShippedNames(false), ", "))
	case words > maxCrawlerWords:
		return fmt.Errorf("agent: %d words; use at most %d", words, maxCrawlerWords)
	case c.Wait != nil && (*c.Wait < 0 || time.Duration(*c.Wait) > maxCrawlerWait):
		return fmt.Errorf("wait %v: use %s", time.Duration(*c.Wait), crawlerWaitBounds)
	}
	_, err := parseUnlessPlaceholder(c.Resolver, parseResolver)
	return err
}

// parseResolver returns the address and port of a resolver; empty: that of the system.
func parseResolver(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	if address, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(address, portOfDNS).String(), nil
	}
	if at, err := netip.ParseAddrPort(text); err == nil && at.Port() != 0 {
		return at.String(), nil
	}
	return "", fmt.Errorf("resolver: use %s", crawlerResolverBounds)
}

// runningCrawlers are the crawlers of a configuration. Nil: there are none.
type runningCrawlers struct {
	set      *crawlers.Set
	resolver string // that is asked; empty: that of the system
	lookups  *sharedLookups
	looks    *clock.Task // at the files

	unasked map[string]bool // crawlers that no handler asks for
}

// sharedLookups are the look-ups of all configurations with the same resolver and names.
type sharedLookups struct {
	*crawlers.Lookups
	key string // in the pool
}

// Destruct ends the look-ups, which no configuration uses any more.
func (l *sharedLookups) Destruct() error {
	l.Close()
	return nil
}

// lookups has the look-ups, whose answers outlive configurations.
var lookups = caddy.NewUsagePool()

// These count for the whole process.
var (
	crawlerRequests = storepool.Counter("crawler_requests_total",
		"Requests that claim to come from a crawler of the option crawlers, by the crawler and by what is known: verified; forged, the "+
			"address is certainly none of its; unknown, the DNS has not answered so far or cannot, or the claim comes from a private address.",
		"crawler", "outcome")
	crawlerLookups = func() *prometheus.CounterVec {
		counted := storepool.Counter("crawler_lookups_total",
			"Look-ups of addresses in the DNS by outcome: verified, the address has a crawler's name; forged, it has none; failed, the "+
				"resolver could not say; refused, there was no room.", "outcome")
		for _, o := range crawlers.LookupResults() {
			counted.WithLabelValues(string(o))
		}
		return counted
	}()
)

// open reads the files and acquires the look-ups; nil where there are no crawlers. Look-ups log by a logger that is not a
// configuration's, as they outlive these; files by that of the configuration, with whose life the looks at them end.
func (c *Crawlers) open(life context.Context, ofProcess func() *zap.Logger, logger *zap.Logger) (*runningCrawlers, error) {
	if c == nil {
		return nil, nil //nolint:nilnil // nil knows no crawler
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	resolver, all, err := c.resolve()
	if err != nil {
		return nil, fmt.Errorf("crawlers: %w", err)
	}
	r := &runningCrawlers{resolver: resolver, unasked: map[string]bool{}}
	var suffixes []string
	for _, known := range all {
		suffixes = append(suffixes, known.Suffixes...)
	}
	if len(suffixes) > 0 {
		if r.lookups, err = openLookups(resolver, suffixes, ofProcess); err != nil {
			return nil, err
		}
	}
	wait := defaultCrawlerWait
	if c.Wait != nil {
		wait = time.Duration(*c.Wait)
	}
	r.set = crawlers.NewSet(all, r.own(), wait, func() {
		logger.Warn("requests that claim to be a crawler come from private addresses, which nothing is known of: " +
			"name the proxy in front in trusted_proxies of the global option servers")
	})
	for _, known := range all {
		r.unasked[known.Name] = true
	}
	r.looks = &clock.Task{Run: func() { r.look(logger) }, Life: life} // a look that is under way as that ends is the last one
	return r, nil
}

// asked notes that a handler asks for some crawlers, or for all.
func (r *runningCrawlers) asked(all bool, names []string) {
	if all {
		clear(r.unasked)
	}
	for _, name := range names {
		delete(r.unasked, name)
	}
}

// warnings returns what the option can hardly mean, once all handlers are set up.
func (r *runningCrawlers) warnings() (texts []string) {
	if r == nil || len(r.unasked) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("crawlers: nothing asks for %s; write exempt crawler <name> into a directive, or a placeholder such as "+
		"{http.redis_ratelimit.crawler} into a key or a match", strings.Join(slices.Sorted(maps.Keys(r.unasked)), ", "))}
}

// forAdmin returns what the admin API answers about; nil: there are no crawlers.
func (r *runningCrawlers) forAdmin() *adminserver.Crawlers {
	if r == nil {
		return nil
	}
	return &adminserver.Crawlers{Set: r.set, Resolver: r.resolver, Lookups: r.own()}
}

// claimsOf returns how many requests have claimed a crawler since the process started.
func claimsOf(name string, status crawlers.Status) int64 {
	return storepool.CounterValue(crawlerRequests.WithLabelValues(name, status.String()))
}

// own returns the look-ups; nil: no crawler has names.
func (r *runningCrawlers) own() *crawlers.Lookups {
	if r.lookups == nil {
		return nil
	}
	return r.lookups.Lookups
}

// resolve replaces placeholders, and reads the files.
func (c *Crawlers) resolve() (resolver string, all []*crawlers.Crawler, err error) {
	if resolver, err = options.ResolveText("resolver", c.Resolver); err == nil {
		resolver, err = parseResolver(resolver)
	}
	for _, known := range c.Known {
		one := &crawlers.Crawler{Name: known.Name, Words: known.Agents}
		for _, suffix := range known.Names {
			one.Suffixes = append(one.Suffixes, strings.ToLower(suffix))
		}
		for _, path := range known.Ranges {
			if err != nil {
				break
			}
			var file *crawlers.File
			if path, err = options.ResolveText(known.Name+": ranges", path); err != nil {
				break
			}
			if file, err = crawlers.OpenFile(path); err != nil {
				err = fmt.Errorf("%s: ranges %s: %w", known.Name, path, err)
			}
			one.Ranges = append(one.Ranges, file)
		}
		for _, status := range []crawlers.Status{crawlers.Verified, crawlers.Forged, crawlers.Unknown} {
			crawlerRequests.WithLabelValues(known.Name, status.String()) // at 0: a rate does not show the first of a series
		}
		all = append(all, one)
	}
	return resolver, all, err
}

// openLookups returns the look-ups by a resolver that the process has, and makes them if there are none.
func openLookups(resolver string, suffixes []string, logger func() *zap.Logger) (*sharedLookups, error) {
	slices.Sort(suffixes)
	suffixes = slices.Compact(suffixes)
	key := resolver + " " + strings.Join(suffixes, " ")
	held, _, err := lookups.LoadOrNew(key, func() (caddy.Destructor, error) {
		return &sharedLookups{crawlers.NewLookups(crawlers.LookupOptions{
			Resolver: crawlers.NewResolver(resolver), Suffixes: suffixes,
			Count: func(o crawlers.LookupResult) { crawlerLookups.WithLabelValues(string(o)).Inc() },
			OnNoNames: func() {
				logger().Warn("the resolver has found no name of any of 20 addresses: it may not answer for addresses of the internet; "+
					"name another one in resolver of the option crawlers", zap.String("resolver", shownResolver(resolver)))
			},
		}), key}, nil
	})
	shared, ok := held.(*sharedLookups)
	if err == nil && !ok {
		err = errors.New("the look-ups of crawlers are of another kind")
	}
	return shared, err
}

// shownResolver names a resolver.
func shownResolver(resolver string) string {
	if resolver == "" {
		return "that of the system"
	}
	return resolver
}

// start begins to look at the files.
func (r *runningCrawlers) start() {
	if r != nil && slices.ContainsFunc(r.set.Crawlers, func(c *crawlers.Crawler) bool { return len(c.Ranges) > 0 }) {
		r.looks.Start(time.Millisecond)
	}
}

// look reads the files that have changed.
func (r *runningCrawlers) look(logger *zap.Logger) {
	for _, c := range r.set.Crawlers {
		for _, file := range c.Ranges {
			found, fields := file.Look(), []zap.Field{zap.String("crawler", c.Name), zap.String("file", file.Path())}
			if found.Changed {
				logger.Info("the ranges of a crawler have changed", append(fields, zap.Int("ranges", file.Len()))...)
			}
			if found.Problem != nil {
				logger.Warn("the ranges of a crawler cannot be read; the last ones go on to count", append(fields, zap.Error(found.Problem))...)
			}
			if found.Old {
				logger.Warn("the ranges of a crawler are older than 7 days: an address in them is verified, and no other one is forged; "+
					"have them fetched each day", append(fields, zap.Time("modified", file.Modified()))...)
			}
		}
	}
	r.looks.Start(crawlers.LookInterval)
}

// close ends the use of the look-ups by a configuration, and the looks at its files.
func (r *runningCrawlers) close() {
	if r == nil {
		return
	}
	r.looks.Stop()
	if r.lookups != nil {
		_, _ = lookups.Delete(r.lookups.key) // Destruct returns no error
	}
}

// knows reports whether there is a crawler of a name.
func (r *runningCrawlers) knows(name string) bool {
	return r != nil && slices.ContainsFunc(r.set.Crawlers, func(c *crawlers.Crawler) bool { return c.Name == name })
}

// namedCrawlers finds placeholders of crawlers.
var namedCrawlers = regexp.MustCompile(regexp.QuoteMeta(rule.CrawlerName) + `[a-z_]*`)

// identifier returns what identifies crawlers for a handler, by its configuration and the crawlers that are exempt there; nil where
// neither the handler nor another one asks for these. The caller sets Count.
func (r *runningCrawlers) identifier(configured string, exempt []string, elsewhere bool) (*gate.Crawlers, error) {
	for _, name := range exempt {
		if !r.knows(name) {
			return nil, fmt.Errorf("exempt crawler %s: the global option has no such crawler; name it in crawlers { ... } there", name)
		}
	}
	named := namedCrawlers.FindAllString(configured, -1)
	for _, name := range named {
		if !rule.IsOfCrawler(name) {
			return nil, fmt.Errorf("{%s} is unknown; use {%s}, {%s} or {%s}", name, rule.CrawlerName, rule.CrawlerClaim, rule.CrawlerStatus)
		}
	}
	shows := len(named) > 0 || elsewhere
	switch {
	case r != nil && (shows || len(exempt) > 0):
		r.asked(shows, exempt)
		return &gate.Crawlers{Set: r.set, Shows: shows}, nil
	case shows:
		return nil, fmt.Errorf("{%s} needs crawlers { ... } in the global option %s", rule.CrawlerName, options.AppName)
	}
	return nil, nil //nolint:nilnil // nothing asks
}
