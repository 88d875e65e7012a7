package command

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

func crawlersCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "crawlers [<address>]",
		Short: "Shows the crawlers that are known, and how an address is verified",
		Long: `
Shows the crawlers of the global option, how each is known, and how many
requests have claimed it since Caddy started: verified, forged, and those of
which nothing is known for certain. Files of ranges are shown with their age.

With an address, the DNS is asked about it now: each question, its answer, the
time it took, and what a request from there would be that claims a crawler.`,
		Example: `  caddy redis-ratelimit crawlers
  caddy redis-ratelimit crawlers 66.249.66.1`,
		Args: cobra.MaximumNArgs(1),
		RunE: runs(runCrawlers),
	}
}

func runCrawlers(i *invocation) error {
	var question adminapi.CrawlersRequest
	if args := i.cmd.Flags().Args(); len(args) > 0 {
		question.Address = args[0]
	}
	report, err := ask(i, adminapi.Crawlers, question)
	if !i.hasReport(err) {
		return err
	}
	if report.Address != nil {
		i.showAddress(report.Address)
		return err
	}
	if err == nil && len(report.Crawlers) == 0 {
		i.terminal.Print("the configuration knows no crawlers; name some in crawlers { ... } of the global option\n")
		return err
	}
	crawlersTable(report.Crawlers).Write(i.terminal)
	i.showRanges(report.Crawlers)
	if report.Resolver != nil {
		i.terminal.Print("\n" + resolverText(report.Resolver) + "\n")
	}
	return err
}

func crawlersTable(all []adminapi.CrawlerEntry) *display.Table {
	t := &display.Table{Columns: []display.Column{
		{Title: "CRAWLER"}, {Title: "VERIFIED", Right: true}, {Title: "FORGED", Right: true}, {Title: "UNKNOWN", Right: true},
		{Title: "NAMES"},
	}}
	for i := range all {
		c := &all[i]
		t.Add(c.Name, strconv.FormatInt(c.Verified, 10), strconv.FormatInt(c.Forged, 10), strconv.FormatInt(c.Unknown, 10),
			strings.Join(c.Names, " "))
	}
	return t
}

// showRanges prints the files of ranges with their age.
func (i *invocation) showRanges(all []adminapi.CrawlerEntry) {
	t := &display.Table{Columns: []display.Column{
		{Title: "CRAWLER"}, {Title: "RANGES", Right: true}, {Title: "AGE", Right: true}, {Title: "FILE"},
	}}
	files := 0
	for _, c := range all {
		for _, r := range c.Ranges {
			age := display.Duration(max(0, time.Since(r.Modified)).Truncate(time.Minute))
			if r.Old {
				age += ", too old"
			}
			t.Add(c.Name, strconv.Itoa(r.Ranges), age, r.File)
			files++
		}
	}
	if files > 0 {
		i.terminal.Print("\n")
		t.Write(i.terminal)
	}
}

// resolverText tells of the resolver.
func resolverText(r *adminapi.ResolverReport) string {
	name := "resolver " + display.Escape(r.Address)
	if r.Address == "" {
		name = "the system's resolver"
	}
	state := "has found names"
	switch {
	case r.Failing:
		state = "fails, so that no request waits for it"
	case !r.FoundNames:
		state = "has found no name of any address so far, so that nothing is forged by its name"
	}
	return name + ": " + state + "; addresses known: " + strconv.Itoa(r.Verified) + " verified, " +
		strconv.Itoa(r.Others) + " others; look-ups: " + strconv.Itoa(r.Running) + " running, " + strconv.Itoa(r.Waiting) + " waiting"
}

// showAddress prints what was found out about an address.
func (i *invocation) showAddress(a *adminapi.AddressReport) {
	if !a.Internet {
		i.terminal.Print(display.Escape(a.Address) + ": no client of the internet has this address; each claim from there is unknown\n")
	}
	for _, s := range a.Steps {
		answer := strings.Join(s.Answers, ", ")
		if s.Error != "" {
			answer = strings.TrimPrefix(answer+"; "+s.Error, "; ")
		}
		took := strconv.FormatFloat(s.Took*1000, 'f', 0, 64)
		i.terminal.Print(display.Escape(s.Question+": "+answer) + " (" + took + " ms)\n")
	}
	if len(a.Steps) > 0 {
		i.terminal.Print("\n")
	}
	t := &display.Table{Columns: []display.Column{{Title: "CRAWLER"}, {Title: "CLAIM"}, {Title: "BY"}}}
	for _, c := range a.Claims {
		t.Add(c.Name, c.Status, c.By)
	}
	t.Write(i.terminal)
}
