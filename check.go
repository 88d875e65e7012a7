package redisratelimit

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

func checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check --config <path> [--adapter <name>]",
		Short: "Tries the Redis of a configuration, and says what is missing",
		Long: `
Connects to the Redis of a configuration, which need not run, and tries what
this module does there: whether Redis is reachable, recent enough, of the
configured mode and writable; whether the user may run every command that is
needed; whether each algorithm's script decides, and how long a round trip
takes. On a Cluster every master is tried.

It counts under a policy of its own, redis-ratelimit-check, whose keys are gone
after seconds.

The exit code is 0 where nothing failed, 2 where something is missing, and 3
where Redis cannot be asked. --json prints a list of {"check", "result",
"detail", "advice"}, where the result is ok, warning or failed.`,
		Example: `  caddy redis-ratelimit check --config /etc/caddy/Caddyfile
  caddy redis-ratelimit check --config caddy.json --json`,
		Args: cobra.NoArgs,
		RunE: runs(runCheck),
	}
}

// The results of a check.
const (
	resultOK      = "ok"
	resultWarning = "warning"
	resultFailed  = "failed"
)

// finding is what one check found.
type finding struct {
	Check  string `json:"check"`
	Result string `json:"result"`
	Detail string `json:"detail"`
	Advice string `json:"advice"`

	server string // that it was found at; "": at all
}

func runCheck(i *invocation) error {
	app, logs, err := i.configuredApp()
	if err != nil {
		return err
	}
	c := &checkup{logs: logs}
	c.run(app)
	findings := c.merged()
	if i.json {
		text, err := json.MarshalIndent(findings, "", "  ")
		if err != nil {
			return err
		}
		i.printJSON(text)
	} else {
		findingTable(findings).write(i.screen)
	}
	switch {
	case c.unasked:
		return &exit{code: exitNoRedis}
	case slices.ContainsFunc(findings, func(f finding) bool { return f.Result == resultFailed }):
		return &exit{code: exitRefused}
	}
	return nil
}

func findingTable(findings []finding) *textTable {
	t := &textTable{columns: []column{{title: "CHECK"}, {title: "RESULT"}, {title: "DETAIL", wrap: true}}}
	for _, f := range findings {
		t.add(f.Check, f.Result, f.Detail)
		if f.Advice != "" {
			t.add("", "", "-> "+f.Advice)
		}
	}
	return t
}

// merged is the findings, with those that several servers have alike made one.
func (c *checkup) merged() []finding {
	findings := []finding{}
	for at, f := range c.findings {
		same := func(other finding) bool {
			return other.Check == f.Check && other.Result == f.Result && other.Detail == f.Detail && other.Advice == f.Advice
		}
		if slices.ContainsFunc(c.findings[:at], same) {
			continue
		}
		var servers []string
		for _, other := range c.findings[at:] {
			if same(other) && other.server != "" {
				servers = append(servers, other.server)
			}
		}
		switch {
		case len(c.servers) < 2 || len(servers) == 0:
		case len(servers) == len(c.servers):
			f.Detail += " (all " + strconv.Itoa(len(servers)) + " masters)"
		default:
			f.Detail = strings.Join(servers, ", ") + ": " + f.Detail
		}
		findings = append(findings, f)
	}
	return findings
}
