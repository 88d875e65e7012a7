package command

import (
	"errors"
	"fmt"
	"io"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

// The exit codes besides 0, as in helpEnd.
const (
	exitNotAsked = 1
	exitWarned   = 1
	exitRefused  = 2
	exitNoRedis  = 3
	exitDenied   = 4
)

// exit is an error that ends a command with that code. Its text is a line for people. It is empty if the
// output says it already.
type exit struct {
	code int
	text string
}

// Error implements error.
func (e *exit) Error() string { return e.text }

func exitf(code int, format string, values ...any) error {
	return &exit{code, fmt.Sprintf(format, values...)}
}

// exitCode returns the code that an error ends a command with.
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
	terminal display.Writer
	json     bool
	progress io.Writer // the terminal that [invocation.shows] writes to; nil: none
	waitsFor string    // what the admin endpoint does meanwhile; empty: answers
}

// flag returns the value of a flag as text.
func (i *invocation) flag(name string) string { return i.cmd.Flags().Lookup(name).Value.String() }

// given returns the text of a flag that may be left out.
func (i *invocation) given(name string) adminapi.Given {
	return adminapi.Given{Text: i.flag(name), Given: i.cmd.Flags().Changed(name)}
}

// complain writes a line to stderr.
func (i *invocation) complain(line string) { i.cmd.PrintErrln(display.Escape(line)) }

// hint prints the admin API's advice, if there is some.
func (i *invocation) hint(text string) {
	if text != "" {
		i.complain("Hint: " + text)
	}
}

// runs adapts a function to cobra. Its error becomes one line on stderr and an exit code.
func runs(run func(*invocation) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		i := &invocation{
			cmd: cmd, terminal: display.NewWriter(cmd.OutOrStdout()), json: caddycmd.Flags{FlagSet: cmd.Flags()}.Bool("json"),
			progress: terminalOf(cmd.ErrOrStderr()),
		}
		err := run(i)
		if failure := i.terminal.Err(); err == nil && failure != nil {
			err = exitf(exitNotAsked, "writing the result: %s", failure)
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
		// Caddy's own way to another exit code. With an error Caddy would log it once more.
		return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return code, nil })(cmd, args)
	}
}
