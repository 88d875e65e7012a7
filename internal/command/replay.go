package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

func (h Host) replay() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay --config <file> <access log>...",
		Short: "Plays access logs through the limits of a configuration",
		Long: `
Plays access logs through the limits of a configuration, on a clock that follows
the log, and shows which requests and clients they would have refused. It reads
and writes the named files only: no Redis, no network, no running Caddy.

` + display.Wrap("Logs are "+accesslog.FormatNames()+", plain, gzip or zstd. The format is detected. - is the standard input. "+
			"Several files are one log, in any order. Routes, matchers, placeholders, keys, weights and exemptions are those of the "+
			"configuration; overrides are ignored, as a log does not tell them. Handlers that need a real request are skipped and listed.",
			"") + `Requests without a host in the log count for the only host with limits, or for
--host.

` + display.Wrap("A log in another format is read by --format: one of the names "+accesslog.FormatWords()+", or the log_format of nginx "+
			"or the LogFormat of Apache that wrote it. A log as JSON is read by --fields, with the keys of starts or ends, client, method, "+
			"uri, status, duration and others. Times are those of starts or of ends: nginx logs the end.", "") + `

With --suggest the requests that meet a policy are also played against a ladder
of limits, to find the smallest limit that leaves most clients untouched: per
window, and of requests that run at once (max_concurrent), if the log has
durations.

With --changes each policy shows what an upgrade from before 29 November 2026
changes: how many requests have another key, an unreadable one, look first, or
are met newly by match. A log has neither cookies nor credentials: keys of these
are not compared. docs/upgrading.md says which words keep the old.`,
		Example: `  caddy redis-ratelimit replay --config Caddyfile access.log
  caddy redis-ratelimit replay -c Caddyfile --report report.html *.log.gz
  caddy redis-ratelimit replay -c Caddyfile x.log \
      --format '$remote_addr [$time_local] "$request" $status $request_time'
  caddy redis-ratelimit replay -c Caddyfile x.log \
      --fields ends=time,client=ip,method=verb,uri=path,status=code
  zcat access.log.*.gz | caddy redis-ratelimit replay -c Caddyfile --suggest -`,
		Args: cobra.MinimumNArgs(1),
		RunE: runs(h.runReplay),
	}
	flags := cmd.Flags()
	flags.StringP("policy", "p", "", "Let one `policy` decide alone")
	flags.String("host", "", "The `host` of requests whose log has none")
	flags.String("format", "", "The `format`: a name, or one of nginx or Apache")
	flags.String("fields", "", "The `keys` of JSON: ends=time,client=ip,uri=path,…")
	flags.Uint16("worst", 10, "How many of the worst keys to list")
	flags.String("report", "", "Write an HTML report to this `file`")
	flags.Bool("suggest", false, "Try other limits on the same traffic")
	flags.Bool("changes", false, "Count what an upgrade changes")
	flags.StringSlice("algorithm", nil, "With --suggest: for these `algorithms`")
	return cmd
}

func (h Host) runReplay(i *invocation) error {
	worst, err := i.cmd.Flags().GetUint16("worst")
	if err != nil {
		return err
	}
	options := replay.RunOptions{Worst: int(worst)}
	simulation, err := h.simulation(i)
	if err != nil {
		return err
	}
	defer simulation.Close()
	if i.flag("changes") == "true" {
		simulation.TellChanges()
	}
	if err := i.suggest(simulation, &options); err != nil {
		return err
	}
	logs := simulation.LogOptions()
	if logs.Format, err = i.logFormat(); err != nil {
		return err
	}
	logs.LongRequests = countsRunning(simulation) || options.Suggest != nil && options.Suggest.TriesRunning()
	logs.Files, logs.Stdin, logs.Read = i.cmd.Flags().Args(), i.cmd.InOrStdin(), new(atomic.Int64)
	log, err := accesslog.Open(logs)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // it was only read
	if err := checkReport(i.flag("report")); err != nil {
		return err
	}
	var second Simulation
	options.Again = func() (replay.Engine, error) {
		var err error
		second, err = h.simulation(i)
		return second, err
	}
	end := i.shows(playing(logs.Read, log.Size(), options.Suggest != nil))
	result, err := replay.Run(log, simulation, options)
	end()
	if second != nil {
		second.Close()
	}
	if err != nil {
		return err
	}
	return i.finish(result)
}

// playing says how much of logs of a size in bytes was read; 0: of a size that is not known.
func playing(read *atomic.Int64, size int64, suggests bool) func() string {
	return func() string {
		switch done := read.Load(); {
		case size == 0:
			return fmt.Sprintf("playing the log: %s MB read", display.Count(done/1_000_000))
		case done < size || !suggests:
			return fmt.Sprintf("playing the log: %d %%", min(100, 100*done/size))
		}
		return "trying other limits"
	}
}

// logFormat returns the format of --format or --fields; nil without either.
func (i *invocation) logFormat() (format *accesslog.Format, err error) {
	text, fields := i.flag("format"), i.flag("fields")
	switch {
	case text != "" && fields != "":
		return nil, exitf(exitNotAsked, "--format and --fields are for different logs: name one of them")
	case text != "":
		if format, err = accesslog.ParseFormat(text); err != nil {
			return nil, exitf(exitNotAsked, "--format: %s", err)
		}
	case fields != "":
		if format, err = accesslog.ParseFields(fields); err != nil {
			return nil, exitf(exitNotAsked, "--fields: %s", err)
		}
	}
	return format, nil
}

// countsRunning reports whether a policy counts requests while they run.
func countsRunning(s Simulation) bool {
	return slices.ContainsFunc(s.Policies(), func(p replay.PolicyResult) bool { return p.CountsRunning() })
}

// simulation sets up the configuration of --config.
func (h Host) simulation(i *invocation) (Simulation, error) {
	config, _, _, err := i.loadConfig()
	if err != nil {
		return nil, err
	}
	if len(config) == 0 {
		return nil, exitf(exitNotAsked, "no configuration: name one with --config")
	}
	s, err := h.Simulate(config, i.flag("policy"))
	if err != nil {
		return nil, exitf(exitRefused, "%s", err)
	}
	if host := i.flag("host"); host != "" {
		s.SetHost(host)
	}
	return s, nil
}

// suggest sets the options of --suggest.
func (i *invocation) suggest(s Simulation, o *replay.RunOptions) error {
	flags := caddycmd.Flags{FlagSet: i.cmd.Flags()}
	if !flags.Bool("suggest") {
		if i.cmd.Flags().Changed("algorithm") {
			return exitf(exitNotAsked, "--algorithm needs --suggest")
		}
		return nil
	}
	policies := s.Policies()
	if len(policies) != 1 {
		return exitf(exitNotAsked, "--suggest needs one policy: name it with --policy")
	}
	algorithms, err := i.cmd.Flags().GetStringSlice("algorithm")
	if err != nil {
		return err
	}
	if o.Suggest, err = replay.NewSuggester(s.Policy(0), policies[0].Key(), algorithms); err != nil {
		return exitf(exitNotAsked, "--suggest: %s", err)
	}
	return nil
}

// checkReport refuses to replace a file that does not begin as a report does, such as a log or a Caddyfile. An empty
// path is no file.
func checkReport(path string) error {
	if info, err := os.Stat(path); err != nil || info.Mode()&(fs.ModeDevice|fs.ModeNamedPipe) != 0 {
		return nil //nolint:nilerr // there is none yet; writing it finds out what else is wrong. Opening a pipe would wait
	}
	file, err := os.Open(path)
	if err != nil {
		return nil //nolint:nilerr // as above
	}
	defer file.Close() //nolint:errcheck // it was only read
	begin := make([]byte, len(replay.ReportBegin))
	if _, err := io.ReadFull(file, begin); err != nil || string(begin) != replay.ReportBegin {
		return fmt.Errorf("--report: %s is there, and no report: name another file to write", path)
	}
	return nil
}

// finish writes the report and prints the result. It writes no report if the logs have something to read, but no request.
// A file without one is an error even if others have requests: they are played, and the result is not whole.
func (i *invocation) finish(result *replay.Result) error {
	err := unreadFiles(result)
	if path := i.flag("report"); path != "" && (err == nil || result.Requests > 0) {
		if err := writeReport(path, result); err != nil {
			return err
		}
	}
	if failure := i.show(result); failure != nil {
		return failure
	}
	return err
}

func writeReport(path string, result *replay.Result) error {
	var page bytes.Buffer
	if err := replay.WriteReport(&page, result); err != nil {
		return err
	}
	return os.WriteFile(path, page.Bytes(), 0o666) //nolint:gosec // the umask decides, as for any output
}

// unreadFiles returns an error that names the first files of which no line was a request.
func unreadFiles(result *replay.Result) error {
	const named = 3
	var faults []string
	for i := range result.Log.Files {
		if f := &result.Log.Files[i]; f.Unread() {
			faults = append(faults, f.Fault())
		}
	}
	if len(faults) == 0 {
		return nil
	}
	if more := len(faults) - named; more > 0 {
		faults = append(faults[:named], display.Counted(more, "more file"))
	}
	return exitf(exitNotAsked, "no request could be read from %s", strings.Join(faults, "; from "))
}

// show prints the result.
func (i *invocation) show(result *replay.Result) error {
	if i.json {
		encoder := json.NewEncoder(i.terminal)
		encoder.SetIndent("", "  ")
		return encoder.Encode(result)
	}
	result.WriteTable(i.terminal)
	return i.terminal.Err()
}
