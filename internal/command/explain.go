package command

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
)

// nobody is an address that no client has, RFC 5737.
const nobody = "192.0.2.1"

func explainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain --url <url>",
		Short: "Shows which policies a request would meet, and what they decide",
		Long: `
Plays a request through the running configuration without charging anybody, and
shows the policies that it meets, the key that each yields, and what each would
decide. Only a real request can pass some handlers, such as a proxy; those are
left out and listed.

The exit code is 0 where the request would go on, and 4 where it would be
refused: denied, rejected or failed closed.`,
		Example: `  caddy redis-ratelimit explain --url https://example.com/api/search
  caddy redis-ratelimit explain --url http://localhost/login --method POST \
      --header 'X-Api-Key: 12' --client-ip 203.0.113.7`,
		Args: cobra.NoArgs,
		RunE: runs(runExplain),
	}
	flags := cmd.Flags()
	flags.StringP("method", "X", http.MethodGet, "The `method` of the request")
	flags.String("url", "", "The whole `url` of the request (required)")
	flags.StringArrayP("header", "H", nil, "A `header`, 'Name: value'; may be given several times")
	flags.String("client-ip", nobody, "The `ip` of the client")
	require(cmd, "url")
	return cmd
}

func runExplain(i *invocation) error {
	lines, err := i.cmd.Flags().GetStringArray("header")
	if err != nil {
		return err
	}
	question := adminapi.ExplainRequest{Method: i.flag("method"), URL: i.flag("url"), ClientIP: i.flag("client-ip"), Headers: map[string]adminapi.HeaderValues{}}
	for _, line := range lines {
		name, value, found := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !found || name == "" {
			return exitf(exitNotAsked, "--header %q: write it as 'Name: value'", line)
		}
		question.Headers[name] = append(question.Headers[name], strings.TrimSpace(value))
	}
	var report adminapi.ExplainReport
	err = i.ask(http.MethodPost, "explain", question, &report)
	if i.knows(err) && report.Decision != "" {
		i.showExplained(report)
	}
	if err == nil && refused(report.Decision) {
		return &exit{code: exitDenied}
	}
	return err
}

// refused tells whether a request about which that is decided goes no further.
func refused(decision string) bool {
	return slices.Contains([]string{"denied", "rejected", "failed_closed"}, decision)
}

func (i *invocation) showExplained(report adminapi.ExplainReport) {
	decision := i.terminal.paintWord(printable(decisionText(report.Decision)))
	if report.Decision == "none" {
		decision = "no policy is met"
	}
	i.terminal.print("server " + printable(report.Server) + ": " + decision + "\n")
	if len(report.Policies) > 0 {
		i.terminal.print("\n")
		explainedTable(report.Policies).write(i.terminal)
	}
	if len(report.Skipped) > 0 {
		i.terminal.print("\n")
		i.terminal.printWords("left out: " + printable(strings.Join(report.Skipped, ", ")))
	}
}

// decisionText writes a decision in words.
func decisionText(decision string) string { return strings.ReplaceAll(decision, "_", " ") }

func explainedTable(policies []adminapi.ExplainedPolicy) *textTable {
	t := &textTable{columns: []column{
		{title: "POLICY"}, {title: "KEY"}, {title: "DECISION"}, {title: "WEIGHT", right: true},
		{title: "LEFT", right: true}, {title: "RETRY", right: true}, {title: "RESET", right: true}, {title: "SOURCE"},
	}}
	for _, p := range policies {
		decision := decisionText(p.Decision)
		if p.DryRun {
			decision += " (dry run)"
		}
		if p.Source == "" { // there was nothing to decide
			t.add(p.Policy, p.Key, decision, "", "", "", "", "")
			continue
		}
		t.add(p.Policy, p.Key, decision, strconv.FormatInt(p.Weight, 10),
			strconv.FormatInt(p.Remaining, 10)+"/"+strconv.FormatInt(p.Limit, 10),
			waitTime(p.RetryAfter), waitTime(p.ResetAfter), p.Source)
	}
	return t
}
