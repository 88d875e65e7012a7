package command

import (
	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

func resetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reset --policy <name> (--key <key> | --all)",
		Short: "Resets the quota of one client, or of all clients of a policy",
		Long: `
Deletes what was counted, so that the next request finds a full quota, and
prints how many quotas were reset. Without --key the flag --all is required, so
that a missing flag does not reset all clients. Other nodes may deny for as long
as their deny_cache keeps denials, a second at most.`,
		Example: `  caddy redis-ratelimit reset --policy api --key 203.0.113.7
  caddy redis-ratelimit reset --policy api --all`,
		RunE: runs(runReset),
	}
	policyFlag(cmd, "The policy's `name` (required)")
	cmd.Flags().String("key", "", "The client's `key`, as 'top' prints it")
	cmd.Flags().Bool("all", false, "Reset all clients of the policy")
	require(cmd, "policy")
	cmd.MarkFlagsMutuallyExclusive("key", "all")
	return cmd
}

func runReset(i *invocation) error {
	question := adminapi.QuotaRequest{Policy: i.flag("policy"), Key: i.given("key")}
	if !question.Key.Given && i.flag("all") != "true" {
		return exitf(exitNotAsked, "use --key to reset the quota of one client, or --all to reset those of all clients")
	}
	if !question.Key.Given {
		i.waitsFor = "resetting all quotas of policy " + question.Policy
	}
	report, err := ask(i, adminapi.Reset, question)
	if !i.hasReport(err) {
		return err
	}
	i.terminal.Print(resetText(report, err == nil) + "\n")
	i.hint(report.Hint)
	return err
}

// resetText says how many quotas were reset, and where, if not everywhere.
func resetText(report adminapi.ResetReport, everywhere bool) string {
	count, where := report.Deleted, ""
	switch {
	case everywhere:
	case report.Deleted > 0:
		where = " in a part of Redis; the rest could not be asked"
	default:
		count, where = report.DeletedHere, " on this node alone"
	}
	return display.Counted(count, "quota") + " reset" + where
}
