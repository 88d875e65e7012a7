// Package command is the command line: caddy redis-ratelimit and its subcommands. Most of them call the
// admin API of a running Caddy. check connects to a Redis, try plays made requests, and replay access logs.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/tryout"
)

// Host is what the commands need from the module besides the admin API.
type Host struct {
	// Redis returns how to reach the Redis of a configuration, nil if it counts in process. The app is the
	// configuration's redis_ratelimit; nil if it has none.
	Redis func(app json.RawMessage) (*RedisTarget, error)

	// Warnings sets up a configuration, and returns what it can hardly mean, as warnings of the check
	// [Configuration].
	Warnings func(config []byte) []Finding

	// Simulate sets up a configuration to decide a log's requests. A policy that is named decides alone.
	Simulate func(config []byte, policy string) (Simulation, error)

	// Try plays made requests through a configuration.
	Try func(ctx context.Context, config []byte, options tryout.Inputs) (*tryout.Report, error)
}

// Simulation is a configuration that decides the requests of a log.
type Simulation interface {
	replay.Engine

	// Policy returns the limiter's policy of an index.
	Policy(index int) *limiter.Policy

	// LogOptions returns the options for reading logs that follow from the configuration.
	LogOptions() accesslog.ReaderOptions

	// TellChanges has the results of policies tell what is not as it was before.
	TellChanges()

	// SetHost sets the host of requests whose log has none.
	SetHost(name string)

	// Close releases the configuration.
	Close()
}

// New returns the command.
func New(host Host) caddycmd.Command {
	return caddycmd.Command{
		Name:      "redis-ratelimit",
		Short:     "Shows and resets rate limits, and checks their Redis",
		CobraFunc: host.setUp,
	}
}

const helpBegin = `
Shows and changes the rate limits of the running Caddy, through its admin
endpoint:

`

// helpOfEndpoints has a line for each command that asks the admin endpoint.
func helpOfEndpoints() string {
	var lines strings.Builder
	for _, r := range adminapi.Routes() {
		fmt.Fprintf(&lines, "  %-9s  %s\n", r.Name, r.About)
	}
	return lines.String()
}

const helpEnd = `
'check', 'try' and 'replay' need no running Caddy. 'check' connects to the Redis
of a configuration, 'try' plays made requests through a configuration, and
'replay' access logs.

The admin endpoint is that of --address. Without it, it is that of the
configuration given with --config, or of a Caddyfile in the current directory,
or Caddy's default.

--json prints the answer of the admin endpoint, with times in seconds. Keys are
written and read in one form: a backslash is doubled, and each byte that does
not print is \xNN.

Exit codes:

  0  done; explain: the request would pass
  1  no answer: Caddy does not run there, or a flag is wrong; replay: no
     request could be read; check: the configuration has a warning; try: a
     mistake was found
  2  refused, such as a policy that does not exist; check: Redis lacks
     something; try: the configuration cannot be played
  3  Redis cannot be asked
  4  explain: the request would be refused`

func (h Host) setUp(cmd *cobra.Command) {
	cmd.Long = helpBegin + helpOfEndpoints() + helpEnd
	cmd.Args, cmd.SuggestionsMinimumDistance = knownSubcommand, 2
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.DisableFlagsInUseLine = true // without a subcommand it takes no flags
	cmd.Example = `  caddy redis-ratelimit policies
  caddy redis-ratelimit state --policy api --key 203.0.113.7
  caddy redis-ratelimit check --config /etc/caddy/Caddyfile`
	flags := cmd.PersistentFlags()
	flags.String("address", "", "Address of the admin endpoint, if different from config")
	flags.StringP("config", "c", "", "Configuration file")
	flags.StringP("adapter", "a", "", "Name of config adapter to apply")
	flags.Bool("json", false, "Print JSON instead of tables")
	for _, sub := range []*cobra.Command{
		policiesCommand(), stateCommand(), resetCommand(), overrideCommand(), overridesCommand(), topCommand(), bansCommand(),
		explainCommand(), crawlersCommand(), pageCommand(), h.check(), h.try(), h.replay(),
	} {
		if sub.Args == nil {
			sub.Args = cobra.NoArgs
		}
		cmd.AddCommand(sub)
	}
}

// knownSubcommand refuses an unknown subcommand. Cobra refuses it for a root command alone.
func knownSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return errors.New(text)
}
