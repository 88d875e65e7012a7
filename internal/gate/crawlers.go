package gate

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/crawlers"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// Crawlers identifies the crawlers that requests come from. A limiter has it where its rules, or handlers elsewhere, ask for
// crawlers.
type Crawlers struct {
	Set *crawlers.Set

	// Shows says that a placeholder of crawlers is named somewhere.
	Shows bool

	// Count counts a request of a client that claims a crawler, from an address. Required.
	Count func(i crawlers.Identity, address netip.Addr)
}

// crawlerVar is the request variable of an [identified]: the first limiter that asks settles it.
const crawlerVar = "redis_ratelimit.crawler"

// identified is what is known of the sender of a request that claims a crawler.
type identified struct{ crawlers.Identity }

// Identify finds out which crawler a client's request comes from, and sets the placeholders. It may wait for the DNS, so that no
// place, lease or body is held by then.
func (c *Crawlers) Identify(r *http.Request, repl *caddy.Replacer) crawlers.Identity {
	return c.identify(r, repl, func(claim crawlers.Claim, from crawlers.Sender) crawlers.Identity {
		identity := c.Set.Verify(r.Context(), claim, from)
		if identity.Status() != crawlers.Unclaimed {
			c.Count(identity, from.Address)
		}
		return identity
	})
}

// IdentifyWithin is [Crawlers.Identify] for a request that is explained, with another longest wait.
func (c *Crawlers) IdentifyWithin(r *http.Request, repl *caddy.Replacer, wait time.Duration) crawlers.Identity {
	return c.identify(r, repl, func(claim crawlers.Claim, from crawlers.Sender) crawlers.Identity {
		return c.Set.VerifyWithin(r.Context(), claim, from, wait)
	})
}

// IdentifyOffline is [Crawlers.Identify] for a request of a log, whose address is not told to a resolver.
func (c *Crawlers) IdentifyOffline(r *http.Request, repl *caddy.Replacer) crawlers.Identity {
	return c.identify(r, repl, c.Set.VerifyOffline)
}

func (c *Crawlers) identify(
	r *http.Request, repl *caddy.Replacer, verify func(crawlers.Claim, crawlers.Sender) crawlers.Identity,
) crawlers.Identity {
	claim := c.Set.ClaimOf(r.Header)
	if claim.IsNone() {
		if c.Shows && repl != nil {
			repl.Map(noCrawler)
		}
		return crawlers.Identity{}
	}
	vars, _ := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
	found, _ := vars[crawlerVar].(*identified)
	if found == nil {
		address, unbelieved := rule.ClaimantOf(r)
		found = &identified{verify(claim, crawlers.Sender{Address: address, Unbelieved: unbelieved})}
		if vars != nil {
			vars[crawlerVar] = found
		}
	}
	if c.Shows && repl != nil {
		repl.Map(found.placeholder)
	}
	return found.Identity
}

// placeholder returns a value of {http.redis_ratelimit.crawler…}.
func (i *identified) placeholder(name string) (any, bool) {
	switch name {
	case rule.CrawlerName:
		return i.Crawler(), true
	case rule.CrawlerClaim:
		return i.Claimed(), true
	case rule.CrawlerStatus:
		return i.Status().String(), true
	}
	return nil, false
}

// noCrawler has the placeholders of a request that claims no crawler.
func noCrawler(name string) (any, bool) {
	if rule.IsOfCrawler(name) {
		return "", true
	}
	return nil, false
}
