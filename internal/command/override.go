package command

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

func overrideCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: `override [--policy <name>]
      (--key <key> | --range <cidr> | --all)
      (--limit <n> [--burst <n>] | --block | --exempt | --unban | --remove)
      [--for <duration>] [--note <text>] [--force]`,
		Short: "Changes the limit of one client, or of all, on every node at once",
		Long: `
Gives one client of a policy another limit, blocks it or exempts it, for a time
or until the override is removed. With --all it concerns all clients without an
override of their own. Every node applies it within a second, without a reload.
Counts go on: a client that has used 90 of 100 has 10 left, with --limit 500 it
has 410.

Overrides are kept in Redis, or in the process without one, up to 10,000. A
second override of the same client replaces the first. While Redis does not
decide, --block, --exempt and --unban work on the asked node alone, until Redis
decides again, and the answer says so. --limit needs Redis.

A key that no request of the policy can have is refused without --force. Copy
keys from 'top' or 'explain'. A star in a key is a star, no pattern.

Without --policy, --block refuses an address or a range at every redis_ratelimit
directive that its requests reach, whatever their policies count. --remove
without --policy ends that.

With --range, --block refuses all clients whose address lies in it, but for one
whose own key is exempt. The policy's key needs an address. There may be 1,000
ranges. One wider than a /8, or a /16 of IPv6, needs --force, and without
--policy one that holds the address that asks.

With --unban no override is set: the ban of the client, or with --all every ban
of the policy, is lifted and its offenses are forgotten. 'bans' lists them. The
count stays; 'reset' gives a client its full quota, too.`,
		Example: `  caddy redis-ratelimit override --policy api --key acme --limit 5000 --for 2h
  caddy redis-ratelimit override --policy api --key 203.0.113.7 --block \
      --note 'scrapes, ticket 12'
  caddy redis-ratelimit override --key 203.0.113.7 --block --for 2h
  caddy redis-ratelimit override --policy api --range 203.0.113.0/24 --block
  caddy redis-ratelimit override --policy login --key 203.0.113.7 --unban
  caddy redis-ratelimit override --policy api --key acme --remove`,
		RunE: runs(runOverride),
	}
	policyFlag(cmd, "The policy's `name`; without it --block is for all policies")
	flags := cmd.Flags()
	flags.String("key", "", "The client's `key`, as 'top' prints it")
	flags.String("range", "", "Clients in `cidr`, only with --block and --remove")
	flags.Bool("all", false, "All clients without an override of their own")
	flags.Int64("limit", 0, "The limit, `n` units per window of the policy")
	flags.Int64("burst", 0, "The burst, `n` units; default: that of the policy")
	flags.Bool("block", false, "Refuse the client's requests")
	flags.Bool("exempt", false, "Leave the policy out for the client's requests")
	flags.Bool("unban", false, "Lift the ban; with --all, all bans of the policy")
	flags.Bool("remove", false, "Remove the override")
	flags.String("for", "", "How long, a `duration` such as 2h; default: until removed")
	flags.Bool("force", false, "Also for what is hardly meant: see above")
	flags.String("note", "", "A remark, `text` that the list shows")
	cmd.MarkFlagsMutuallyExclusive("key", "range", "all")
	cmd.MarkFlagsMutuallyExclusive("limit", "block", "exempt", "unban", "remove")
	return cmd
}

func runOverride(i *invocation) error {
	question := adminapi.OverrideRequest{
		Policy: i.given("policy"), All: i.flag("all") == "true", Block: i.flag("block") == "true",
		Exempt: i.flag("exempt") == "true", Unban: i.flag("unban") == "true", Remove: i.flag("remove") == "true",
		Force: i.flag("force") == "true",
		Key:   i.given("key"), Range: i.given("range"), For: i.given("for"), Note: i.flag("note"),
	}
	for flag, value := range map[string]**int64{"limit": &question.Limit, "burst": &question.Burst} {
		if i.cmd.Flags().Changed(flag) {
			n, err := i.cmd.Flags().GetInt64(flag)
			if err != nil {
				return err
			}
			*value = &n
		}
	}
	switch {
	case !question.Key.Given && !question.Range.Given && !question.All:
		return exitf(exitNotAsked, "use --key for one client, --range for addresses, or --all for all clients without an override of their own")
	case len(question.Actions()) == 0:
		return exitf(exitNotAsked, "use one of --limit, --block, --exempt, --unban and --remove")
	}
	if err := checkEverywhere(&question); err != nil {
		return err
	}
	report, err := ask(i, adminapi.Override, question)
	if !i.hasReport(err) || err != nil && report.Unbanned == nil {
		return err
	}
	switch {
	case report.Removed:
		i.terminal.Print("override removed" + onThisNode(report.NodeOnly) + "\n")
	case report.Unbanned != nil:
		where := onThisNode(report.NodeOnly)
		if err != nil {
			where = " in a part of Redis; the rest could not be asked"
		}
		i.terminal.Print(display.Counted(*report.Unbanned, "ban") + " lifted" + where + "\n")
	case report.OverrideEntry != nil:
		report.OverrideEntry.NodeOnly = report.NodeOnly // the report has one field for all answers
		showOverride(i, report.OverrideEntry, report.Directives)
	}
	i.hint(report.Hint)
	return err
}

// onThisNode says that one node alone does something, behind what is done.
func onThisNode(only bool) string {
	if only {
		return " on this node alone"
	}
	return ""
}

// checkEverywhere refuses what only works with a policy. The admin API does so too, but its errors quote no key, since Caddy
// logs these.
func checkEverywhere(o *adminapi.OverrideRequest) error {
	switch {
	case o.Policy.Given:
		return nil
	case o.All && o.Block:
		return exitf(exitNotAsked, "--all --block without --policy would refuse everyone; name the policy")
	case o.All || !o.Block && !o.Remove:
		return exitf(exitNotAsked, "--policy is missing; without it only --block of an address or a range works")
	case !o.Key.Given:
		return nil
	}
	if _, err := adminapi.AddressOf(o.Key.Text); err != nil {
		return exitf(exitNotAsked, "key %s: without --policy %v", o.Key.Text, err)
	}
	return nil
}

// directivesText says how many directives refuse all requests of a site.
func directivesText(n int) string {
	if n == 0 {
		return "0: no directive covers a whole site"
	}
	return display.Count(n) + " without a matcher"
}

// showOverride writes an override, a value a line, and how many directives cover a whole site, if that is known.
func showOverride(i *invocation, o *adminapi.OverrideEntry, directives *int) {
	var values display.KeyValues
	values.Add("policy", policyText(o))
	values.Add("clients", clientsText(o))
	if o.Key != nil {
		values.Add("key", *o.Key)
	}
	values.Add("range", o.Range)
	values.Add("override", overrideText(o))
	values.Add("until", untilText(o))
	values.Add("note", o.Note)
	if directives != nil {
		values.Add("directives", directivesText(*directives))
	}
	values.Write(i.terminal)
}

func overridesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "overrides",
		Short: "Lists the overrides of all policies",
		Long: `
Lists the limits, blocks and exemptions that 'override' has set. With hash_keys
a key is its HMAC, as in Redis. If Redis cannot be asked, the list is what this
node knows, and the exit code is 3.`,
		Example: "  caddy redis-ratelimit overrides",
		RunE:    runs(runOverrides),
	}
}

func runOverrides(i *invocation) error {
	report, err := ask(i, adminapi.Overrides, adminapi.NoQuestion{})
	if !i.hasReport(err) {
		return err
	}
	if len(report.Overrides) == 0 {
		i.terminal.Print("no overrides\n")
		return err
	}
	overrideTable(report.Overrides).Write(i.terminal)
	return err
}

// overrideTable has a column that says whom a row concerns: any text in that of the keys may be a client's.
func overrideTable(overrides []adminapi.OverrideEntry) *display.Table {
	t := &display.Table{Columns: []display.Column{
		{Title: "POLICY"}, {Title: "CLIENTS"}, {Title: "KEY"}, {Title: "OVERRIDE"}, {Title: "UNTIL"}, {Title: "NOTE"},
	}}
	for n := range overrides {
		o := &overrides[n]
		key := o.Range
		if o.Key != nil {
			key = *o.Key
		}
		t.Add(policyText(o), clientsText(o), key, overrideText(o), untilText(o), o.Note)
	}
	return t
}

// policyText names the policy of an override. No name has parentheses.
func policyText(o *adminapi.OverrideEntry) string {
	if o.Policy == "" {
		return "(all)"
	}
	return o.Policy
}

// clientsText says whom an override concerns.
func clientsText(o *adminapi.OverrideEntry) string {
	switch {
	case o.All:
		return "all"
	case o.Range != "":
		return "range"
	}
	return "one"
}

// overrideText says what an override does; empty for none.
func overrideText(o *adminapi.OverrideEntry) string {
	switch {
	case o == nil:
		return ""
	case o.Block:
		return "block" + onThisNode(o.NodeOnly)
	case o.Exempt:
		return "exempt" + onThisNode(o.NodeOnly)
	case o.Burst > 0:
		return "limit " + strconv.FormatInt(o.Limit, 10) + ", burst " + strconv.FormatInt(o.Burst, 10)
	}
	return "limit " + strconv.FormatInt(o.Limit, 10)
}

// overrideAndRange says what an override does, and for which addresses; empty for none.
func overrideAndRange(o *adminapi.OverrideEntry) string {
	text := overrideText(o)
	switch {
	case o == nil:
	case o.Range != "":
		text += " for " + o.Range
	case o.Policy == "" && o.Key != nil:
		text += " for " + *o.Key
	}
	if o != nil && o.Policy == "" {
		text += " in all policies"
	}
	return text
}

// untilText is the end of an override, in whole seconds.
func untilText(o *adminapi.OverrideEntry) string {
	if o.Until == nil {
		return "it is removed"
	}
	return o.Until.Round(time.Second).Format(time.RFC3339)
}

// overrideLine describes an override in one line; empty for none.
func overrideLine(o *adminapi.OverrideEntry) string {
	if o == nil {
		return ""
	}
	text := overrideAndRange(o)
	if o.All {
		text += " for all"
	}
	return text + ", until " + untilText(o)
}
