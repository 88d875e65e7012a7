package command

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/tryout"
)

// tryFor bounds how long requests are played.
const tryFor = 30 * time.Second

func (h Host) try() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "try --config <file>",
		Short: "Plays made requests, to show whether a configuration does what you mean",
		Long: `
Makes requests for each policy of a configuration and plays them, on a clock
that is moved: more than the limit, another client, ten at once, a forged
X-Forwarded-For, responses that count_if counts and that it does not, and other
spellings of the key and the path which web frameworks read as the same. It
reads the named file only: no Redis, no network, no running Caddy, and nothing
of the configuration is set up but matchers and limits.

Requests are made up for the matchers of a policy. What cannot be made up, such
as what an expression asks for, is given by --url, --method, --header, --data as
for explain, and what a handler sets that is not run, such as a log-in, by --as.
A policy that no request meets is listed as not played, with the reason.

The exit code is 0 if no mistake was found; 1 if there is one: a spelling that
frameworks read as the same has another quota, or none; with --all also if a
policy was not played; 2 if the configuration cannot be played.`,
		Example: `  caddy redis-ratelimit try --config Caddyfile
  caddy redis-ratelimit try --all --as user.id=bob
  caddy redis-ratelimit try --url https://example.com/login \
      -X POST -d email=bob@example.com`,
		RunE: runs(h.runTry),
	}
	flags := cmd.Flags()
	flags.StringArray("url", nil, "A whole `url` to try first; may be given several times")
	flags.StringP("method", "X", "", "The `method`: by default what matchers ask for")
	flags.StringArrayP("header", "H", nil, "A `header`, 'Name: value'; may be given several times")
	flags.StringArrayP("data", "d", nil, "The body: a `text`, @file, or @- for the standard input")
	flags.StringArray("as", nil, "What a handler sets: `name=value`, as user.id=bob")
	flags.Bool("strict-paths", false, "Applications answer other spellings of paths with 404")
	flags.Bool("all", false, "Fail if a policy was not played")
	return cmd
}

func (h Host) runTry(i *invocation) error {
	options, err := i.tryOptions()
	if err != nil {
		return exitf(exitRefused, "%s", err)
	}
	config, _, _, err := i.loadConfig()
	switch {
	case err != nil:
		return exitf(exitRefused, "%s", err)
	case len(config) == 0:
		return exitf(exitRefused, "no configuration: name one with --config")
	}
	ctx, cancel := context.WithTimeout(i.cmd.Context(), tryFor)
	defer cancel()
	report, err := h.Try(ctx, config, *options)
	if err != nil {
		return exitf(exitRefused, "%s", err)
	}
	if i.json {
		encoder := json.NewEncoder(i.terminal)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(report); err != nil {
			return err
		}
	} else {
		report.WriteTable(i.terminal)
	}
	all := caddycmd.Flags{FlagSet: i.cmd.Flags()}.Bool("all")
	if report.Failed() || all && !report.Whole() {
		return &exit{code: exitWarned}
	}
	return nil
}

// tryOptions reads the flags.
func (i *invocation) tryOptions() (*tryout.Inputs, error) {
	flags := i.cmd.Flags()
	o := &tryout.Inputs{Method: i.flag("method"), Header: http.Header{}, Values: map[string]string{}}
	o.StrictPaths = caddycmd.Flags{FlagSet: flags}.Bool("strict-paths")
	var err error
	if o.URLs, err = flags.GetStringArray("url"); err != nil {
		return nil, err
	}
	lines, err := flags.GetStringArray("header")
	if err != nil {
		return nil, err
	}
	for _, line := range lines {
		name, value, err := cutHeader(line)
		if err != nil {
			return nil, err
		}
		o.Header.Add(name, value)
	}
	pairs, err := flags.GetStringArray("as")
	if err != nil {
		return nil, err
	}
	for _, pair := range pairs {
		name, value, found := strings.Cut(pair, "=")
		if !found || name == "" || value == "" {
			return nil, exitf(exitRefused, "--as %q: write it as name=value, such as user.id=bob", pair)
		}
		o.Values[name] = value
	}
	return o, i.addTryData(o)
}

// addTryData adds the body of --data.
func (i *invocation) addTryData(o *tryout.Inputs) error {
	texts, err := i.cmd.Flags().GetStringArray("data")
	switch {
	case err != nil || len(texts) == 0:
		return err
	case len(texts) > 1:
		return exitf(exitRefused, "--data stands %d times; write it once, the fields of a form with & between", len(texts))
	}
	data, length, err := i.readData(texts[0])
	switch {
	case err != nil:
		return exitf(exitRefused, "--data: %v", err)
	case length > int64(len(data)):
		return exitf(exitRefused, "--data: has %d bytes; give at most %d", length, adminapi.MaxData)
	}
	if o.Body = data; o.Body == nil {
		o.Body = []byte{}
	}
	return nil
}
