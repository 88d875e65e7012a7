package command

import (
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

func stateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state --policy <name> --key <key>",
		Short: "Shows how much one client has left",
		Long: `
Shows a client's quota of a policy without charging it, and its keys in Redis.
If Redis cannot be asked, it shows the state of this node, prints the reason to
stderr and ends with the exit code 3.`,
		Example: "  caddy redis-ratelimit state --policy api --key 203.0.113.7",
		RunE:    runs(runState),
	}
	policyFlag(cmd, "The policy's `name` (required)")
	cmd.Flags().String("key", "", "The client's `key`, as 'top' prints it (required)")
	require(cmd, "policy", "key")
	return cmd
}

func runState(i *invocation) error {
	report, err := ask(i, adminapi.State, adminapi.QuotaRequest{Policy: i.flag("policy"), Key: i.given("key")})
	if !i.hasReport(err) || report.Policy == "" {
		return err
	}
	var quota display.KeyValues
	quota.Add("policy", report.Policy)
	quota.Add("key", report.Key)
	if report.QuotaReport != nil {
		quota.Add("limit", strconv.FormatInt(report.Limit, 10))
		quota.Add("remaining", strconv.FormatInt(report.Remaining, 10))
		quota.Add("retry after", inTime(report.RetryAfter))
		quota.Add("reset after", inTime(report.ResetAfter))
		if report.Banned > 0 {
			quota.Add("banned", "for "+banLeft(report.Banned))
		}
		quota.Add("source", report.Source)
	}
	if report.Leased != nil {
		quota.Add("leased", strconv.FormatInt(report.Leased.Units, 10)+" by this node, for "+display.Seconds(report.Leased.Lasts))
	}
	if report.Waiting != nil {
		quota.Add("waiting here", waitingText(report.Waiting))
	}
	quota.Add("override", overrideLine(report.Override))
	if report.DryRun {
		quota.Add("dry run", "no handler limits this key")
	}
	for _, p := range report.Passes {
		quota.Add("pass "+p.Key, strconv.FormatInt(p.Remaining, 10)+"/"+strconv.FormatInt(p.Limit, 10)+", reset "+inTime(p.ResetAfter))
	}
	quota.Write(i.terminal)
	if len(report.Keys) > 0 {
		i.terminal.Print("\n")
		keyTable(report.Keys).Write(i.terminal)
	}
	if t := nodeTable(report.Keys, report.Node); t != nil {
		i.terminal.Print("\n")
		t.Write(i.terminal)
	}
	i.hint(report.Hint)
	return err
}

// nodeTable lists what each node runs of keys, which their values tell, and where requests wait the claim to the next units;
// nil for nothing.
func nodeTable(keys []adminapi.RedisKeyReport, own string) *display.Table {
	var rows [][]string
	claims := false
	for _, k := range keys {
		claim, _ := k.Value["claim"].(map[string]any)
		claimant, _ := claim["node"].(string)
		list, _ := k.Value["nodes"].([]any)
		for _, entry := range list {
			fields, _ := entry.(map[string]any)
			name, _ := fields["node"].(string)
			running, _ := fields["running"].(float64)
			row := []string{name, display.Decimal(running, 0), "", thisNode(name, own)}
			if name == claimant && claimant != "" {
				row[2], claimant = claimText(claim), ""
				claims = true
			}
			rows = append(rows, row)
		}
		if claimant != "" { // it runs nothing
			rows = append(rows, []string{claimant, "0", claimText(claim), thisNode(claimant, own)})
			claims = true
		}
	}
	if len(rows) == 0 {
		return nil
	}
	t := &display.Table{Columns: []display.Column{{Title: "NODE"}, {Title: "RUNNING", Right: true}, {Title: "NEXT PLACE FOR"}, {Title: ""}}}
	if !claims {
		t.Columns = slices.Delete(t.Columns, 2, 3)
	}
	for _, row := range rows {
		if !claims {
			row = slices.Delete(row, 2, 3)
		}
		t.Add(row...)
	}
	return t
}

// thisNode marks the name of the node that was asked.
func thisNode(name, own string) string {
	if name == own {
		return "this node"
	}
	return ""
}

// claimText says what the request needs that has the next place, and how old its turn is.
func claimText(claim map[string]any) string {
	units, _ := claim["units"].(float64)
	age, _ := claim["age"].(float64)
	return display.Counted(int64(units), "unit") + ", its turn " + display.Seconds(age) + " old"
}

// keyTable lists keys in Redis.
func keyTable(keys []adminapi.RedisKeyReport) *display.Table {
	t := &display.Table{Columns: []display.Column{
		{Title: "REDIS KEY"}, {Title: "TYPE"}, {Title: "TTL", Right: true}, {Title: "VALUE"},
	}}
	for _, k := range keys {
		ttl := "none"
		if k.TTL >= 0 {
			ttl = display.Seconds(k.TTL)
		}
		t.Add(k.Name, k.Type, ttl, pairs(k.Value))
	}
	return t
}
