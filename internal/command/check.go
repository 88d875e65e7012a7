package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

func (h Host) check() *cobra.Command {
	return &cobra.Command{
		Use:   "check --config <path> [--adapter <name>]",
		Short: "Checks a configuration and its Redis, and reports what is missing",
		Long: `
Connects to the Redis of a configuration and tries what this module does there.
Caddy need not run. The checks are whether Redis is reachable, recent enough, of
the configured mode and writable, whether the user may run every command that is
needed, whether each algorithm's script decides, and how long a round trip
takes. On a Cluster they run on every master. Then the configuration is set up,
as 'caddy validate' does, and the warnings about its limits are listed.

The checks count under a policy of their own, redis-ratelimit-check. Its keys
expire after seconds.

The exit code is 0 if nothing failed, 1 if there is a warning about the
configuration, 2 if something is missing, and 3 if Redis cannot be asked.
--json prints a list of {"check", "result", "detail", "advice"}, where the
result is ok, warning or failed.`,
		Example: `  caddy redis-ratelimit check --config /etc/caddy/Caddyfile
  caddy redis-ratelimit check --config caddy.json --json`,
		RunE: runs(h.runCheck),
	}
}

func (h Host) runCheck(i *invocation) error {
	findings, unasked, err := h.findings(i)
	if err != nil {
		return err
	}
	if i.json {
		text, err := json.MarshalIndent(findings, "", "  ")
		if err != nil {
			return err
		}
		i.printJSON(text)
	} else {
		findingTable(findings).Write(i.terminal)
	}
	switch {
	case unasked:
		return &exit{code: exitNoRedis}
	case slices.ContainsFunc(findings, func(f Finding) bool { return f.Result == Failed }):
		return &exit{code: exitRefused}
	case slices.ContainsFunc(findings, isConfigurationWarning):
		return &exit{code: exitWarned}
	}
	return nil
}

func isConfigurationWarning(f Finding) bool {
	return f.Check == Configuration && f.Result == Warning
}

// findings checks the Redis of the configuration, if it has one, and the configuration itself.
func (h Host) findings(i *invocation) (findings []Finding, unasked bool, err error) {
	text, file, _, err := i.loadConfig()
	if err != nil {
		return nil, false, err
	}
	if file == "" {
		return nil, false, exitf(exitNotAsked, "no configuration: this directory has no Caddyfile; name a configuration with --config")
	}
	var config struct {
		Apps map[string]json.RawMessage `json:"apps"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, false, fmt.Errorf("%s is no configuration of Caddy: %w", file, err)
	}
	options, err := h.Redis(config.Apps["redis_ratelimit"])
	switch {
	case err != nil:
		return []Finding{{
			Check: Configuration, Result: Failed, Detail: err.Error(),
			Advice: "change the global option redis_ratelimit, or set the environment variables and files that it reads",
		}}, false, nil
	case options == nil:
		return append([]Finding{{
			Check: "redis", Result: OK,
			Detail: "none is configured: the limits live in each Caddy process, and are not shared",
		}}, h.Warnings(text)...), false, nil
	}
	options.Logs = bytes.Contains(text, []byte(`"sliding_window_log"`))
	options.Runs = bytes.Contains(text, []byte(`"max_concurrent`))
	options.Challenges = challengePattern.Match(text)
	var step atomic.Pointer[string]
	doing := func(what string) { step.Store(&what) }
	doing("connecting to Redis")
	defer i.shows(func() string { return *step.Load() })()
	findings, unasked = Run(i.cmd.Context(), *options, doing)
	doing("setting the configuration up")
	return append(findings, h.Warnings(text)...), unasked, nil
}

var challengePattern = regexp.MustCompile(`"challenge"\s*:\s*\{`)

func findingTable(findings []Finding) *display.Table {
	t := &display.Table{Columns: []display.Column{{Title: "CHECK"}, {Title: "RESULT"}, {Title: "DETAIL"}}}
	for _, f := range findings {
		t.Add(f.Check, f.Result, f.Detail)
		if f.Advice != "" {
			t.Add("", "", "-> "+f.Advice)
		}
	}
	return t
}
