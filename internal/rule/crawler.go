package rule

import "github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"

// The placeholders of crawlers: the name of the one that a request certainly comes from, the name that the request claims, and
// what is known of the claim.
const (
	CrawlerName   = bodyvalue.PlaceholderPrefix + "crawler"
	CrawlerClaim  = CrawlerName + "_claim"
	CrawlerStatus = CrawlerName + "_status"
)

// IsOfCrawler reports whether a name without braces is a placeholder of crawlers. Most requests have no value of these.
func IsOfCrawler(name string) bool {
	return name == CrawlerName || name == CrawlerClaim || name == CrawlerStatus
}
