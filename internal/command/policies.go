package command

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/escape"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/humanize"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/terminal"
)

func policiesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "policies",
		Short: "Shows every policy, and whether the store works",
		Long: `
Shows the versions of the running Caddy, where it counts and whether that store
decides, then every policy with its settings. A limit from a placeholder stands
before the limit that applies if the placeholder is empty. Below stand the
handlers that use each policy: server, addresses, and what requests must be to
come there.`,
		Example: "  caddy redis-ratelimit policies",
		RunE:    runs(runPolicies),
	}
}

func runPolicies(i *invocation) error {
	var report adminapi.PoliciesReport
	err := i.ask(http.MethodGet, "policies", nil, &report)
	if err != nil || i.json {
		return err
	}
	i.terminal.Print(escape.Text("caddy-redis-ratelimit "+report.Version+", Caddy "+report.Caddy) + "\n" + storeLine(report.Store) + "\n")
	if len(report.Policies) == 0 {
		i.terminal.Print("no policies\n")
		return nil
	}
	i.terminal.Print("\n")
	policyTable(report.Policies).Write(i.terminal)
	if slices.ContainsFunc(report.Policies, func(p adminapi.PolicyReport) bool { return len(p.Handlers) > 0 }) {
		i.terminal.Print("\n")
		handlerTable(report.Policies).Write(i.terminal)
	}
	return nil
}

// storeLine describes in one line where the counts live and whether that store works.
func storeLine(s adminapi.StoreReport) string {
	if s.Kind == "memory" {
		return "memory of this process: " + humanize.Count(s.MemoryKeys) + " of at most " + humanize.Counted(s.MaxKeys, "key")
	}
	where := s.Kind + " " + s.Mode + " " + strings.Join(s.Addresses, ", ")
	if s.Database != 0 {
		where += " database " + strconv.Itoa(s.Database)
	}
	state := "decides in " + humanize.Seconds(s.RoundTrip)
	if !s.Healthy {
		state = "does not decide (" + s.Error + "); handlers do " + s.FailMode
	}
	if s.Breaker != "" {
		state += "; breaker " + s.Breaker
	}
	if s.NextProbe > 0 {
		state += ", next probe " + inTime(s.NextProbe)
	}
	return escape.Text(where + ": " + state)
}

func policyTable(policies []adminapi.PolicyReport) *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "NAME"}, {Title: "ALGORITHM"}, {Title: "LIMIT", Right: true}, {Title: "WINDOW", Right: true},
		{Title: "BURST", Right: true}, {Title: "MAX DELAY", Right: true}, {Title: "NODE TIMEOUT", Right: true}, {Title: "RUNNING HERE", Right: true},
		{Title: "PREFIXES"}, {Title: "OVERRIDES"}, {Title: "BAN"}, {Title: "CHALLENGE"}, {Title: "LEASE"},
	}}
	for _, p := range policies {
		window, nodeTimeout, running := windowText(&p), "", ""
		if p.Running != nil {
			window, nodeTimeout, running = "", humanize.Seconds(p.NodeTimeout), humanize.Count(*p.Running)
		}
		delay, prefixes := "", ""
		if p.MaxDelay != nil {
			delay = humanize.Seconds(*p.MaxDelay)
		}
		if p.IPv4Prefix != 32 || p.IPv6Prefix != 64 { // the defaults are left out
			prefixes = "/" + strconv.Itoa(p.IPv4Prefix) + " /" + strconv.Itoa(p.IPv6Prefix)
		}
		t.Add(p.Name, p.Algorithm, limitText(&p), window, amount(p.BurstFrom, p.Burst), delay, nodeTimeout, running, prefixes, overridesText(&p), banText(p.Ban), challengeText(p.Challenge), leaseText(p.Lease))
	}
	return t
}

// challengeText returns the option as it is configured.
func challengeText(c *adminapi.ChallengeReport) string {
	if c == nil {
		return ""
	}
	return strings.TrimSpace(strconv.Itoa(c.Passes) + " " + amount("", c.Limit))
}

// leaseText says how long a node leases units at most.
func leaseText(longest *float64) string {
	switch {
	case longest == nil:
		return ""
	case *longest == 0:
		return "none: the window is too short"
	}
	return "up to " + humanize.Seconds(*longest)
}

// maxHandlers is how many handlers of a policy are listed.
const maxHandlers = 10

// handlerTable lists the handlers that use each policy.
func handlerTable(policies []adminapi.PolicyReport) *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{{Title: "POLICY"}, {Title: "USED BY"}}}
	for _, p := range policies {
		shown, name := p.Handlers, p.Name
		if len(shown) > maxHandlers {
			shown = append(slices.Clone(shown[:maxHandlers]), "and "+strconv.Itoa(len(shown)-maxHandlers)+" more; --json lists all")
		}
		for _, place := range shown {
			t.Add(name, place)
			name = "" // once
		}
	}
	return t
}

// overridesText says what overrides change of a policy.
func overridesText(p *adminapi.PolicyReport) string {
	var parts []string
	if p.Override != nil {
		parts = append(parts, overrideText(p.Override)+" for all")
	}
	if p.ClientOverrides > 0 {
		parts = append(parts, humanize.Counted(p.ClientOverrides, "client"))
	}
	return strings.Join(parts, ", ")
}

// windowText returns the window: its length, or calendar periods and their time zone.
func windowText(p *adminapi.PolicyReport) string {
	if p.Calendar != "" {
		return p.Calendar + " " + p.TimeZone
	}
	return humanize.Seconds(p.Window)
}

// limitText returns the limit: a number after the placeholder that may set it, or what is in its place.
func limitText(p *adminapi.PolicyReport) string {
	from, n, word := p.LimitFrom, p.Limit, ""
	if p.Running != nil {
		from, n, word = p.MaxConcurrentFrom, p.MaxConcurrent, "max_concurrent "
	}
	if p.Unlimited {
		return word + from + " or unlimited"
	}
	return word + amount(from, n)
}

// amount returns a number after the placeholder that may set it. A number of 0 is left out.
func amount(from string, n int64) string {
	switch {
	case n == 0:
		return from
	case from == "":
		return strconv.FormatInt(n, 10)
	}
	return from + " or " + strconv.FormatInt(n, 10)
}
