package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/replay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/replay/accesslog"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/replay/report"
)

func (h Host) replay() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay --config <file> <access log>...",
		Short: "Plays access logs through a configuration: who is refused?",
		Long: `
Plays access logs through the limits of a configuration, on a clock that follows
the log, and shows whom they would have refused. Nothing is touched but the
files named: no Redis, no network, no running Caddy.

Logs are Caddy's JSON, Common or Combined Log Format, plain, gzip or zstd, found
out by themselves; - is the standard input. Several files are one log, in any
order. Routes, matchers, placeholders, keys, weights and exemptions are those of
the configuration; handlers that only a real request can pass are left out and
listed.

With --suggest the traffic that meets a policy is played against a ladder of
limits too, to find the smallest that leaves most clients untouched.`,
		Example: `  caddy redis-ratelimit replay --config Caddyfile access.log
  caddy redis-ratelimit replay -c Caddyfile --report report.html *.log.gz
  zcat access.log.*.gz | caddy redis-ratelimit replay -c Caddyfile --suggest -`,
		Args: cobra.MinimumNArgs(1),
		RunE: runs(h.runReplay),
	}
	flags := cmd.Flags()
	flags.StringP("policy", "p", "", "Let one `policy` alone decide")
	flags.Int("worst", 10, "How many of the worst keys are listed")
	flags.String("report", "", "Write an HTML report to this `file`")
	flags.String("decisions", "", "Write every request's decision to this CSV `file`")
	flags.Bool("suggest", false, "Try other limits on the same traffic")
	flags.String("key", "", "With --suggest: for another `key`: {client_ip}")
	flags.String("window", "", "With --suggest: for a window of this `duration`")
	flags.StringSlice("algorithm", nil, "With --suggest: with these `algorithms`")
	return cmd
}

func (h Host) runReplay(i *invocation) error {
	flags := caddycmd.Flags{FlagSet: i.cmd.Flags()}
	rehearsal, err := h.rehearsal(i)
	if err != nil {
		return err
	}
	defer rehearsal.Close()
	options := replay.Options{Worst: flags.Int("worst")}
	if err := i.suggest(rehearsal, &options); err != nil {
		return err
	}
	log, err := accesslog.Open(accesslog.Options{Files: i.cmd.Flags().Args(), Stdin: i.cmd.InOrStdin()})
	if err != nil {
		return exitf(exitNotAsked, "%s", err)
	}
	defer func() { _ = log.Close() }() // it was only read
	result, err := i.play(log, rehearsal, options)
	if err != nil {
		return exitf(exitNotAsked, "%s", err)
	}
	return i.show(result)
}

// rehearsal sets up the configuration of --config.
func (h Host) rehearsal(i *invocation) (Rehearsal, error) {
	config, _, _, err := caddycmd.LoadConfig(i.flag("config"), i.flag("adapter"))
	if err != nil {
		return nil, exitf(exitNotAsked, "%s", err)
	}
	if len(config) == 0 {
		return nil, exitf(exitNotAsked, "name a configuration with --config")
	}
	rehearsal, err := h.Rehearse(config, i.flag("policy"))
	if err != nil {
		return nil, exitf(exitRefused, "%s", err)
	}
	return rehearsal, nil
}

// suggest prepares what --suggest tries.
func (i *invocation) suggest(r Rehearsal, o *replay.Options) error {
	flags := caddycmd.Flags{FlagSet: i.cmd.Flags()}
	if !flags.Bool("suggest") {
		if i.flag("key") != "" || i.flag("window") != "" || i.cmd.Flags().Changed("algorithm") {
			return exitf(exitNotAsked, "--key, --window and --algorithm go with --suggest")
		}
		return nil
	}
	policies := r.Policies()
	if len(policies) != 1 {
		return exitf(exitNotAsked, "--suggest takes one policy: name it with --policy")
	}
	policy := policies[0]
	options := replay.SuggestOptions{Window: policy.Window}
	if text := i.flag("window"); text != "" {
		window, err := caddy.ParseDuration(text)
		if err != nil || window <= 0 {
			return exitf(exitNotAsked, "--window %s: use a duration above zero such as 1m", text)
		}
		options.Window = window
	}
	if text := i.flag("key"); text != "" {
		if err := r.TryKey(text); err != nil {
			return exitf(exitNotAsked, "--%s", err)
		}
		policy.Key = text
	}
	var err error
	if options.Algorithms, err = i.cmd.Flags().GetStringSlice("algorithm"); err != nil {
		return err
	}
	if o.Suggest, err = replay.NewSuggester(r.Policy(0), policy.Key, options); err != nil {
		return exitf(exitNotAsked, "--suggest: %s", err)
	}
	return nil
}

// play plays the log, and shows how far it is where somebody is there to see that.
func (i *invocation) play(log *accesslog.Reader, r Rehearsal, o replay.Options) (result *replay.Result, err error) {
	if path := i.flag("decisions"); path != "" {
		file, createErr := os.Create(path)
		if createErr != nil {
			return nil, createErr
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		o.Decisions = file
	}
	ended := i.showProgress(log)
	defer ended()
	return replay.Run(log, r, o)
}

// showProgress tells on a terminal how much of a long log was read, until it is ended.
func (i *invocation) showProgress(log *accesslog.Reader) (ended func()) {
	screen := newScreen(i.cmd.ErrOrStderr())
	if !screen.isTerminal() {
		return func() {}
	}
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(500 * time.Millisecond)
		defer ticker.Stop()
		for shown := false; ; shown = true {
			select {
			case <-ticker.C:
				screen.print("\r" + progressText(log.Progress()) + "\x1b[K")
			case <-done:
				if shown {
					screen.print("\r\x1b[K")
				}
				return
			}
		}
	}()
	return func() { close(done); <-stopped }
}

func progressText(read, total int64) string {
	const megabyte = 1_000_000
	if total <= 0 {
		return fmt.Sprintf("%d MB read", read/megabyte)
	}
	return fmt.Sprintf("%d of %d MB read, %d %%", read/megabyte, total/megabyte, 100*read/total)
}

// show prints the result, and writes the report where one is wanted.
func (i *invocation) show(result *replay.Result) error {
	if path := i.flag("report"); path != "" {
		if err := writeReport(path, result); err != nil {
			return exitf(exitNotAsked, "%s", err)
		}
	}
	if i.json {
		encoder := json.NewEncoder(i.screen.out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(result)
	}
	var table strings.Builder
	if err := result.WriteTable(&table); err != nil {
		return err
	}
	i.screen.print(table.String())
	return nil
}

func writeReport(path string, result *replay.Result) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return report.Write(file, result)
}
