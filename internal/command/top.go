package command

import (
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

func topCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top [--policy <name>]",
		Short: "Shows the keys that are denied most, or use most",
		Long: `
Shows the keys that were denied most often in the last minutes on this node. A
count is never too small, and too large by at most the number after ±. Clients
that are banned are marked; 'bans' lists those of all nodes.

With --used it shows the keys that have used most units, denied or not. Units
that a response charged or gave back are counted so. Busy policies are sampled:
with a probability of 95 % the true number is within ±. --all-nodes asks all
nodes of the Redis, which takes two seconds; nodes of versions without --used
do not answer. With hash_keys it shows the HMACs of keys that this node has not
met.`,
		Example: `  caddy redis-ratelimit top
  caddy redis-ratelimit top --used --all-nodes
  caddy redis-ratelimit top --policy api -n 5
  watch caddy redis-ratelimit top`,
		RunE: runs(runTop),
	}
	policyFlag(cmd, "Only the policy of that `name` (default: all)")
	cmd.Flags().IntP("number", "n", 20, "How `many` keys")
	cmd.Flags().Bool("used", false, "The keys that use most, denied or not")
	cmd.Flags().Bool("all-nodes", false, "With --used: of all nodes together")
	return cmd
}

func runTop(i *invocation) error {
	question := adminapi.TopQuestion{Most: adminapi.GivenAs(i.flag("number"))}
	if policy := i.flag("policy"); policy != "" {
		question.Policy = adminapi.GivenAs(policy)
	}
	switch allNodes := i.flag("all-nodes") == "true"; {
	case i.flag("used") == "true":
		return runUsed(i, question, allNodes)
	case allNodes:
		return exitf(exitNotAsked, "--all-nodes is for --used; give both")
	}
	report, err := ask(i, adminapi.TopDenied, question)
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

// runUsed shows the keys that have used most.
func runUsed(i *invocation, question adminapi.TopQuestion, allNodes bool) error {
	question.By = adminapi.GivenAs("used")
	if allNodes {
		question.Nodes = adminapi.GivenAs("all")
	}
	report, err := ask(i, adminapi.TopUsed, question)
	if !i.hasReport(err) {
		return err
	}
	where := "this node"
	if allNodes {
		where = strconv.Itoa(report.Nodes) + " nodes, which answered"
		if report.Nodes == 1 {
			where = "this node; no other one answered"
		}
	}
	i.terminal.Print("over the last " + display.Seconds(math.Ceil(report.Since)) + " on " + where + "\n")
	if len(report.Keys) == 0 {
		i.terminal.Print("no key has used any units\n")
		return err
	}
	t := &display.Table{Columns: []display.Column{{Title: "USED", Right: true}, {Title: "±ERROR", Right: true}, {Title: "POLICY"}, {Title: "KEY"}}}
	for _, k := range report.Keys {
		t.Add(strconv.FormatInt(k.Used, 10), "±"+strconv.FormatInt(k.Error, 10), k.Policy, k.Key)
	}
	i.terminal.Print("\n")
	t.Write(i.terminal)
	return err
}
