package command

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/report"
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
listed. Logs that tell no host, as Common and Combined Log Format do not, are of
the only host that has limits, or of --host.

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
	flags.String("host", "", "The host of requests whose log does not tell it, such as `example.com`")
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
	options := replay.Options{Worst: flags.Int("worst")}
	if options.Worst < 0 {
		return exitf(exitNotAsked, "--worst %d: use a number from 0", options.Worst)
	}
	rehearsal, read, err := h.rehearsal(i)
	if err != nil {
		return err
	}
	defer rehearsal.Close()
	if err := i.suggest(rehearsal, &options); err != nil {
		return err
	}
	logs := rehearsal.LogOptions()
	logs.Files, logs.Stdin = i.cmd.Flags().Args(), i.cmd.InOrStdin()
	log, err := accesslog.Open(logs)
	if err != nil {
		return exitf(exitNotAsked, "%s", err)
	}
	defer func() { _ = log.Close() }() // it was only read
	files, err := i.openOutputs(i.infosOf(slices.Concat(logs.Files, read)))
	if err != nil {
		return exitf(exitNotAsked, "%s", err)
	}
	defer files.discard() // what is not kept
	result, err := i.play(log, rehearsal, options, files)
	if err != nil {
		return exitf(exitNotAsked, "%s", err)
	}
	return i.finish(result, files)
}

// infosOf tells of the files among paths.
func (i *invocation) infosOf(paths []string) (infos []fs.FileInfo) {
	for _, path := range paths {
		stat := func() (fs.FileInfo, error) { return os.Stat(path) }
		if stdin, ok := i.cmd.InOrStdin().(*os.File); ok && path == "-" {
			stat = stdin.Stat
		}
		if info, err := stat(); err == nil {
			infos = append(infos, info)
		}
	}
	return infos
}

// rehearsal sets up the configuration of --config, and returns the files that it is read from.
func (h Host) rehearsal(i *invocation) (r Simulation, files []string, err error) {
	config, file, adapter, err := i.loadConfig()
	if err != nil {
		return nil, nil, exitf(exitNotAsked, "%s", err)
	}
	if len(config) == 0 {
		return nil, nil, exitf(exitNotAsked, "name a configuration with --config")
	}
	if r, err = h.Simulate(config, i.flag("policy")); err != nil {
		return nil, nil, exitf(exitRefused, "%s", err)
	}
	if host := i.flag("host"); host != "" {
		r.SetHost(host)
	}
	return r, configFiles(file, adapter), nil
}

// suggest prepares what --suggest tries.
func (i *invocation) suggest(r Simulation, o *replay.Options) error {
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
		if err := r.SuggestKey(text); err != nil {
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
func (i *invocation) play(log *accesslog.Reader, r Simulation, o replay.Options, files *outputs) (*replay.Result, error) {
	if files.decisions != nil {
		o.Decisions = files.decisions
	}
	ended := i.showProgress(log)
	defer ended()
	result, err := replay.Run(log, r, o)
	if err != nil || o.Worst > 0 {
		return result, err
	}
	for p := range result.Policies {
		result.Policies[p].Worst = []replay.ClientResult{} // a replay without a number lists some
	}
	return result, nil
}

// showProgress tells on a terminal how much of a long log was read, until it is ended.
func (i *invocation) showProgress(log *accesslog.Reader) (ended func()) {
	screen := newTerminal(i.cmd.ErrOrStderr())
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

// finish writes the files and prints the result. Logs of which nothing could be read make no files.
func (i *invocation) finish(result *replay.Result, files *outputs) error {
	unread := unread(result)
	if !unread {
		if files.report != nil {
			if err := report.Write(files.report, result); err != nil {
				return exitf(exitNotAsked, "%s", err)
			}
		}
		if err := files.keep(); err != nil {
			return exitf(exitNotAsked, "%s", err)
		}
	}
	if err := i.show(result); err != nil {
		return exitf(exitNotAsked, "%s", err)
	}
	if unread {
		return exitf(exitNotAsked, "no request could be read")
	}
	return nil
}

// unread tells whether there was something in the logs and none of it could be read.
func unread(result *replay.Result) bool {
	failed := func(f replay.FileReport) bool { return f.Error != "" }
	return result.Requests == 0 && (result.Log.Malformed > 0 || slices.ContainsFunc(result.Log.Files, failed))
}

// show prints the result. Whoever has it written to a full disk is told.
func (i *invocation) show(result *replay.Result) error {
	if i.json {
		encoder := json.NewEncoder(i.terminal.out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(result)
	}
	var table strings.Builder
	if err := result.WriteTable(&table); err != nil {
		return err
	}
	_, err := io.WriteString(i.terminal.out, table.String())
	return err
}
