package redisratelimit

import (
	"context"
	"net/netip"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/crawlers"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// serveCrawlers tells of the crawlers, and of an address that is looked up now.
func (a *App) serveCrawlers(
	ctx context.Context, question adminapi.CrawlersRequest, _ *storepool.Stores,
) (report adminapi.CrawlersReport, undecided bool, err error) {
	report = a.crawlers.report()
	if question.Address == "" {
		return report, false, nil
	}
	address, err := netip.ParseAddr(question.Address)
	if err != nil {
		return report, false, adminapi.BadInput("address: use an address such as 66.249.66.1")
	}
	report.Address = a.crawlers.trace(ctx, crawlers.Canonical(address))
	return report, false, nil
}

// report tells of the crawlers.
func (r *runningCrawlers) report() adminapi.CrawlersReport {
	report := adminapi.CrawlersReport{Crawlers: []adminapi.CrawlerEntry{}}
	if r == nil {
		return report
	}
	for _, c := range r.set.Crawlers {
		entry := adminapi.CrawlerEntry{
			Name: c.Name, Agents: c.Words, Names: c.Suffixes,
			Verified: claimsOf(c.Name, crawlers.Verified), Forged: claimsOf(c.Name, crawlers.Forged), Unknown: claimsOf(c.Name, crawlers.Unknown),
		}
		for _, file := range c.Ranges {
			entry.Ranges = append(entry.Ranges, adminapi.RangesReport{
				File: file.Path(), Ranges: file.Len(), Modified: file.Modified().UTC(), Old: file.IsOld(),
			})
		}
		report.Crawlers = append(report.Crawlers, entry)
	}
	if l := r.own(); l != nil {
		s := l.State()
		report.Resolver = &adminapi.ResolverReport{
			Address: r.resolver, Failing: s.Failing, FoundNames: s.HasFoundNames, Verified: s.Verified, Others: s.Others,
			Waiting: s.Queued, Running: s.Running,
		}
	}
	return report
}

// pageCounts tells the page how many requests have claimed each crawler.
func (r *runningCrawlers) pageCounts() (counts []adminapi.PageCrawler) {
	for _, c := range r.report().Crawlers {
		counts = append(counts, adminapi.PageCrawler{Name: c.Name, Verified: c.Verified, Forged: c.Forged, Unknown: c.Unknown})
	}
	return counts
}

// claimsOf returns how many requests have claimed a crawler since the process started.
func claimsOf(name string, status crawlers.Status) int64 {
	return storepool.CounterValue(crawlerRequests.WithLabelValues(name, status.String()))
}

// trace finds out what an address is for each crawler.
func (r *runningCrawlers) trace(ctx context.Context, address netip.Addr) *adminapi.AddressReport {
	report := &adminapi.AddressReport{Address: address.String(), Internet: crawlers.OfInternet(address), Claims: []adminapi.ExplainedCrawler{}}
	if r == nil {
		return report
	}
	claims, steps := r.set.Trace(ctx, address)
	for _, step := range steps {
		told := adminapi.StepReport{Question: step.Question, Answers: step.Answers, Took: routetrace.Seconds(step.Took)}
		if step.Err != nil {
			told.Error = step.Err.Error()
		}
		report.Steps = append(report.Steps, told)
	}
	for _, i := range claims {
		report.Claims = append(report.Claims, adminapi.ExplainedCrawler{Name: i.Claimed(), Status: i.Status().String(), By: i.By()})
	}
	return report
}
