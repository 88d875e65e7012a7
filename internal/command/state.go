package command

import (
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/humanize"
)

func stateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state --policy <name> --key <key>",
		Short: "Shows how much one client has left",
		Long: `
Shows a client's share of a policy as it stands, without charging it, and the
keys in Redis behind it. While Redis cannot be asked it shows what the node
knows by itself, says so on stderr and ends with the exit code 3.`,
		Example: "  caddy redis-ratelimit state --policy api --key 203.0.113.7",
		Args:    cobra.NoArgs,
		RunE:    runs(runState),
	}
	policyFlag(cmd, "The policy's `name` (required)")
	cmd.Flags().String("key", "", "The client's `key`, as 'top' prints it (required)")
	require(cmd, "policy", "key")
	return cmd
}

func runState(i *invocation) error {
	var report adminapi.StateReport
	err := i.ask(http.MethodPost, "state", adminapi.QuotaRequest{Policy: i.flag("policy"), Key: adminapi.GivenKey{Text: i.flag("key"), Given: true}}, &report)
	if !i.knows(err) || report.Policy == "" {
		return err
	}
	var share keyValues
	share.add("policy", report.Policy)
	share.add("key", report.Key)
	if report.QuotaReport != nil {
		share.add("limit", strconv.FormatInt(report.Limit, 10))
		share.add("remaining", strconv.FormatInt(report.Remaining, 10))
		share.add("retry after", inTime(report.RetryAfter))
		share.add("reset after", inTime(report.ResetAfter))
		share.add("source", report.Source)
	}
	share.write(i.terminal)
	if len(report.Keys) > 0 {
		i.terminal.print("\n")
		keyTable(report.Keys).write(i.terminal)
	}
	i.hint(report.Hint)
	return err
}

// keyTable shows keys as Redis has them.
func keyTable(keys []adminapi.RedisKeyReport) *textTable {
	t := &textTable{columns: []column{
		{title: "REDIS KEY"}, {title: "TYPE"}, {title: "TTL", right: true}, {title: "VALUE", words: true},
	}}
	for _, k := range keys {
		ttl := "none"
		if k.TTL >= 0 {
			ttl = humanize.Time(k.TTL)
		}
		t.add(k.Name, k.Type, ttl, pairs(k.Value))
	}
	return t
}
