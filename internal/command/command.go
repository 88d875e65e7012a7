// Package command is the command line: caddy redis-ratelimit and its subcommands. Most of them ask the
// admin API of a running Caddy; check tries a Redis, and replay plays access logs.
package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/preflight"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// Host is what the commands need of the module, where asking a running Caddy is not enough.
type Host struct {
	// Redis reads the redis_ratelimit app of a configuration, nil where it has none: how to reach its
	// Redis; nil where the limits live in process.
	Redis func(app json.RawMessage) (*preflight.Options, error)

	// Simulate sets a configuration up to be played. Where a policy is named it alone decides.
	Simulate func(config []byte, policy string) (Simulation, error)
}

// Simulation is a configuration that decides requests of the past.
type Simulation interface {
	replay.Engine

	// Policy is the limiter's own of an index.
	Policy(index int) *limiter.Policy

	// LogOptions are how logs are to be read, as far as the configuration decides.
	LogOptions() accesslog.Options

	// SetHost names the host of requests whose log does not tell it.
	SetHost(name string)

	// SuggestKey has limits suggested for another key, written as in a Caddyfile, for the first policy.
	SuggestKey(text string) error

	// Close ends it.
	Close()
}

// New makes the command.
func New(host Host) caddycmd.Command {
	return caddycmd.Command{
		Name:      "redis-ratelimit",
		Short:     "Shows and resets rate limits, and checks their Redis",
		CobraFunc: host.setUp,
	}
}

// subcommands are the command's parts, each in a file of its own.
func (h Host) subcommands() []*cobra.Command {
	return []*cobra.Command{
		policiesCommand(), stateCommand(), resetCommand(), topCommand(), explainCommand(), h.check(), h.replay(),
	}
}

const commandHelp = `
Asks the running Caddy about its rate limits, through its admin endpoint:

  policies   what is limited, and whether the store is well
  state      how much one client has left, and what Redis holds of it
  reset      forgets one client's count, or a whole policy's
  top        who is denied most, on this node
  explain    which policies a request would meet, and what they would decide

'check' and 'replay' ask no Caddy: the first connects to the Redis of a
configuration, the second plays access logs through one.

The admin endpoint is the one of --address; else that of the configuration
given with --config, or of a Caddyfile in the current directory; else Caddy's
default.

Tables are made to fit a terminal: one that is too wide is written a value a
line, and nothing is shortened. In a pipe they are plain, with a row a line, and
--json prints the answer as the admin endpoint gives it, with times in seconds.
Keys are written and read in one form: a backslash is doubled, and what cannot
be printed is \xNN, byte by byte.

Exit codes:

  0  done; explain: the request would go on
  1  could not ask: no Caddy there, or the command was used wrongly;
     replay: no request could be read
  2  refused as wrong, such as a policy that does not exist; check: Redis
     lacks something
  3  Redis cannot be asked
  4  explain: the request would be refused`

func (h Host) setUp(cmd *cobra.Command) {
	cmd.Long = commandHelp
	cmd.Args, cmd.SuggestionsMinimumDistance = knownSubcommand, 2
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.DisableFlagsInUseLine = true // without a subcommand it takes none
	cmd.Example = `  caddy redis-ratelimit policies
  caddy redis-ratelimit state --policy api --key 203.0.113.7
  caddy redis-ratelimit check --config /etc/caddy/Caddyfile`
	flags := cmd.PersistentFlags()
	flags.String("address", "", "Address of the admin endpoint, if different from config")
	flags.StringP("config", "c", "", "Configuration file")
	flags.StringP("adapter", "a", "", "Name of config adapter to apply")
	flags.Bool("json", false, "Print JSON instead of tables")
	cmd.AddCommand(h.subcommands()...)
}

// knownSubcommand refuses what is no subcommand, which cobra does for the first word of a line alone.
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

// The exit codes, beside 0, of which commandHelp tells.
const (
	exitNotAsked = 1
	exitRefused  = 2
	exitNoRedis  = 3
	exitDenied   = 4
)

// exit is the error that ends a command with that code. Its text is a line for people; where it is
// empty, all was said.
type exit struct {
	code int
	text string
}

// Error implements error.
func (e *exit) Error() string { return e.text }

func exitf(code int, format string, values ...any) error {
	return &exit{code, fmt.Sprintf(format, values...)}
}

// exitCode is the code that an error ends a command with.
func exitCode(err error) int {
	var e *exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.code
	}
	return exitNotAsked
}

// invocation is one run of a subcommand.
type invocation struct {
	cmd      *cobra.Command
	terminal terminal
	json     bool
}

// flag is the value of a flag, as text.
func (i *invocation) flag(name string) string { return i.cmd.Flags().Lookup(name).Value.String() }

// complain writes a line to stderr.
func (i *invocation) complain(line string) { i.cmd.PrintErrln(printable(line)) }

// hint passes on what the admin API advises.
func (i *invocation) hint(text string) {
	if text != "" {
		i.complain("Hint: " + text)
	}
}

// runs makes a function of ours one of cobra's. Its error becomes one line on stderr and an exit code.
func runs(run func(*invocation) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		i := &invocation{cmd: cmd, terminal: newTerminal(cmd.OutOrStdout()), json: caddycmd.Flags{FlagSet: cmd.Flags()}.Bool("json")}
		err := run(i)
		if failure := i.terminal.failure(); err == nil && failure != nil {
			err = exitf(exitNotAsked, "the result cannot be shown: %s", failure)
		}
		if err == nil {
			return nil
		}
		cmd.SilenceErrors = true
		if err.Error() != "" {
			i.complain("Error: " + err.Error())
		}
		code := exitCode(err)
		if code == exitNotAsked {
			return err
		}
		// Caddy's own way to another code; with an error it would log a line of its own.
		return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return code, nil })(cmd, args)
	}
}
