package command

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

func bansCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bans [--policy <name>]",
		Short: "Shows the clients that are banned, on all nodes",
		Long: `
Shows the clients that a policy's option ban refuses now, for how long, and how
many bans each has had, the longest first. They are searched in Redis, which
takes about a second for a million keys, and half a minute at most. Without
Redis they are those of this process. With hash_keys a key is its HMAC, which
'override --unban' takes too.

A ban refuses the requests that its policy meets, and no others: 'policies'
shows which. 'override --key <address> --block' without --policy refuses all.`,
		Example: `  caddy redis-ratelimit bans
  caddy redis-ratelimit bans --policy login`,
		RunE: runs(runBans),
	}
	policyFlag(cmd, "Only the policy of that `name` (default: all)")
	return cmd
}

func runBans(i *invocation) error {
	i.waitsFor = "searching Redis for bans, for half a minute at most"
	report, err := ask(i, adminapi.Bans, adminapi.BansQuestion{Policy: i.given("policy")})
	if !i.hasReport(err) {
		return err
	}
	switch {
	case len(report.Bans) > 0:
		banTable(report.Bans).Write(i.terminal)
	case err == nil:
		i.terminal.Print("no client is banned\n")
	}
	if err == nil && !report.Complete {
		i.hint("there are more bans than these; name a policy with --policy")
	}
	if len(report.Bans) > 0 {
		i.hint("a ban refuses the requests that its policy meets, which 'policies' shows; " +
			"'override --key <address> --block' without --policy refuses an address everywhere")
	}
	return err
}

func banTable(bans []adminapi.BanEntry) *display.Table {
	t := &display.Table{Columns: []display.Column{{Title: "BANNED FOR", Right: true}, {Title: "OFFENSES", Right: true},
		{Title: "POLICY"}, {Title: "KEY"}}}
	for _, b := range bans {
		t.Add(banLeft(b.Banned), strconv.FormatInt(b.Offenses, 10), b.Policy, b.Key)
	}
	return t
}

// banLeft is how long a client is still banned; empty if it is not.
func banLeft(seconds float64) string {
	if seconds <= 0 {
		return ""
	}
	return display.Seconds(seconds)
}
