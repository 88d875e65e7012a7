package command

import (
	"math"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

func topCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top [--policy <name>]",
		Short: "Shows the keys that are denied most, on this node",
		Long: `
Shows the keys that were denied most often in the last minutes on this node. A
count is never too small, and too large by at most the number after ±. Clients
that are banned are marked; 'bans' lists those of all nodes.`,
		Example: `  caddy redis-ratelimit top
  caddy redis-ratelimit top --policy api -n 5
  watch caddy redis-ratelimit top`,
		RunE: runs(runTop),
	}
	policyFlag(cmd, "Only the policy of that `name` (default: all)")
	cmd.Flags().IntP("number", "n", 20, "How `many` keys")
	return cmd
}

func runTop(i *invocation) error {
	query := url.Values{"n": {i.flag("number")}}
	if policy := i.flag("policy"); policy != "" {
		query.Set("policy", policy)
	}
	var report adminapi.TopReport
	err := i.ask(http.MethodGet, "top?"+query.Encode(), nil, &report)
	if err != nil || i.json {
		return err
	}
	i.terminal.Print("over the last " + display.Seconds(math.Ceil(report.Since)) + " on this node\n")
	if len(report.Keys) == 0 {
		i.terminal.Print("no key was denied\n")
		return nil
	}
	i.terminal.Print("\n")
	topTable(report.Keys).Write(i.terminal)
	return nil
}

func topTable(keys []adminapi.TopEntry) *display.Table {
	t := &display.Table{Columns: []display.Column{
		{Title: "DENIED", Right: true}, {Title: "±ERROR", Right: true}, {Title: "BANNED FOR", Right: true}, {Title: "POLICY"}, {Title: "KEY"},
	}}
	for _, k := range keys {
		t.Add(strconv.FormatInt(k.Denied, 10), "±"+strconv.FormatInt(k.Error, 10), banLeft(k.Banned), k.Policy, k.Key)
	}
	return t
}
