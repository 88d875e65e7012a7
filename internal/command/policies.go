package command

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/humanize"
)

func policiesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "policies",
		Short: "Shows every policy, and whether the store is well",
		Long: `
Shows where the running Caddy counts and whether that answers, then every
policy with its settings. A limit that a request's placeholder gives stands
before the one that holds where the placeholder is empty.`,
		Example: "  caddy redis-ratelimit policies",
		Args:    cobra.NoArgs,
		RunE:    runs(runPolicies),
	}
}

func runPolicies(i *invocation) error {
	var report adminapi.PoliciesReport
	err := i.ask(http.MethodGet, "policies", nil, &report)
	if err != nil || i.json {
		return err
	}
	i.terminal.printWords(storeLine(report.Store))
	if len(report.Policies) == 0 {
		i.terminal.print("no policies\n")
		return nil
	}
	i.terminal.print("\n")
	policyTable(report.Policies).write(i.terminal)
	return nil
}

// storeLine tells in a line where the counts live and how that is.
func storeLine(s adminapi.StoreReport) string {
	if s.Kind == "memory" {
		return "memory of this process: " + strconv.FormatInt(s.MemoryKeys, 10) + " of at most " + countOf(s.MaxKeys, "share")
	}
	where := s.Kind + " " + s.Mode + " " + strings.Join(s.Addresses, ", ")
	if s.Database != 0 {
		where += " database " + strconv.Itoa(s.Database)
	}
	state := "decides in " + humanize.Time(s.RoundTrip)
	if !s.Healthy {
		state = "does not decide (" + s.Error + "); handlers do " + s.FailMode
	}
	if s.Breaker != "" {
		state += "; breaker " + s.Breaker
	}
	if s.NextProbe > 0 {
		state += ", next probe " + inTime(s.NextProbe)
	}
	return printable(where + ": " + state)
}

func policyTable(policies []adminapi.PolicyReport) *textTable {
	t := &textTable{columns: []column{
		{title: "NAME"}, {title: "ALGORITHM"}, {title: "LIMIT", right: true}, {title: "WINDOW", right: true},
		{title: "BURST", right: true}, {title: "MAX DELAY", right: true}, {title: "PREFIXES"},
	}}
	for _, p := range policies {
		delay, prefixes := "", ""
		if p.MaxDelay != nil {
			delay = humanize.Time(*p.MaxDelay)
		}
		if p.IPv4Prefix != 32 || p.IPv6Prefix != 64 { // the defaults go without saying
			prefixes = "/" + strconv.Itoa(p.IPv4Prefix) + " /" + strconv.Itoa(p.IPv6Prefix)
		}
		t.add(p.Name, p.Algorithm, amount(p.LimitFrom, p.Limit), humanize.Time(p.Window), amount(p.BurstFrom, p.Burst), delay, prefixes)
	}
	return t
}

// amount is a number, or the placeholder that it may come from before it; nothing where it is 0.
func amount(from string, n int64) string {
	switch {
	case n == 0:
		return from
	case from == "":
		return strconv.FormatInt(n, 10)
	}
	return from + " or " + strconv.FormatInt(n, 10)
}
