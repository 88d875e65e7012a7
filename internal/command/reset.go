package command

import (
	"net/http"

	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
)

func resetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reset --policy <name> (--key <key> | --all)",
		Short: "Forgets one client's count, or a whole policy's",
		Long: `
Forgets what was counted, so that the next request finds a fresh share, and
prints how many shares were forgotten. Without --key it wants --all, so that
nobody forgets everybody's counts by leaving a flag out. Other nodes may go on
denying for as long as their deny_cache remembers, a second at most.`,
		Example: `  caddy redis-ratelimit reset --policy api --key 203.0.113.7
  caddy redis-ratelimit reset --policy api --all`,
		Args: cobra.NoArgs,
		RunE: runs(runReset),
	}
	policyFlag(cmd, "The policy's `name` (required)")
	cmd.Flags().String("key", "", "The client's `key`, as 'top' prints it")
	cmd.Flags().Bool("all", false, "Forget all clients of the policy")
	require(cmd, "policy")
	cmd.MarkFlagsMutuallyExclusive("key", "all")
	return cmd
}

func runReset(i *invocation) error {
	question := adminapi.QuotaRequest{Policy: i.flag("policy")}
	switch {
	case i.cmd.Flags().Changed("key"):
		question.Key = adminapi.GivenKey{Text: i.flag("key"), Given: true}
	case i.flag("all") != "true":
		return exitf(exitNotAsked, "give --key to forget one client's count, or --all to forget those of all clients")
	}
	var report adminapi.ResetReport
	err := i.ask(http.MethodPost, "reset", question, &report)
	if !i.knows(err) {
		return err
	}
	i.terminal.print(forgotten(report, err == nil) + "\n")
	i.hint(report.Hint)
	return err
}

// forgotten says what was forgotten, and where, if that is not everywhere.
func forgotten(report adminapi.ResetReport, everywhere bool) string {
	count, where := report.Deleted, ""
	switch {
	case everywhere:
	case report.Deleted > 0:
		where = " in a part of Redis; the rest could not be asked"
	default:
		count, where = report.DeletedHere, " on this node alone"
	}
	return countOf(count, "share") + " forgotten" + where
}
