package adminserver

import (
	"context"
	"net/netip"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/crawlers"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// serveCrawlers tells of the crawlers, and of an address that is looked up now.
func (s *Server) serveCrawlers(
	ctx context.Context, question adminapi.CrawlersRequest, _ *storepool.Stores,
) (report adminapi.CrawlersReport, undecided bool, err error) {
	report = s.reportCrawlers()
	if question.Address == "" {
		return report, false, nil
	}
	address, err := netip.ParseAddr(question.Address)
	if err != nil {
		return report, false, adminapi.BadInput("address: use an address such as 66.249.66.1")
	}
	report.Address = s.traceAddress(ctx, crawlers.Canonical(address))
	return report, false, nil
}

// reportCrawlers tells of the crawlers.
func (s *Server) reportCrawlers() adminapi.CrawlersReport {
	report := adminapi.CrawlersReport{Crawlers: []adminapi.CrawlerEntry{}}
	if s.Crawlers == nil {
		return report
	}
	for _, c := range s.Crawlers.Set.Crawlers {
		entry := adminapi.CrawlerEntry{
			Name: c.Name, Agents: c.Words, Names: c.Suffixes,
			Verified: s.Process.claims(c.Name, crawlers.Verified), Forged: s.Process.claims(c.Name, crawlers.Forged), Unknown: s.Process.claims(c.Name, crawlers.Unknown),
		}
		for _, file := range c.Ranges {
			entry.Ranges = append(entry.Ranges, adminapi.RangesReport{
				File: file.Path(), Ranges: file.Len(), Modified: file.Modified().UTC(), Old: file.IsOld(),
			})
		}
		report.Crawlers = append(report.Crawlers, entry)
	}
	if s.Crawlers.Lookups != nil {
		state := s.Crawlers.Lookups.State()
		report.Resolver = &adminapi.ResolverReport{
			Address: s.Crawlers.Resolver, Failing: state.Failing, FoundNames: state.HasFoundNames, Verified: state.Verified, Others: state.Others,
			Waiting: state.Queued, Running: state.Running,
		}
	}
	return report
}

// pageCrawlers tells the page how many requests have claimed each crawler.
func (s *Server) pageCrawlers() (counts []adminapi.PageCrawler) {
	for _, c := range s.reportCrawlers().Crawlers {
		counts = append(counts, adminapi.PageCrawler{Name: c.Name, Verified: c.Verified, Forged: c.Forged, Unknown: c.Unknown})
	}
	return counts
}

// traceAddress finds out what an address is for each crawler.
func (s *Server) traceAddress(ctx context.Context, address netip.Addr) *adminapi.AddressReport {
	report := &adminapi.AddressReport{Address: address.String(), Internet: crawlers.OfInternet(address), Claims: []adminapi.ExplainedCrawler{}}
	if s.Crawlers == nil {
		return report
	}
	claims, steps := s.Crawlers.Set.Trace(ctx, address)
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
