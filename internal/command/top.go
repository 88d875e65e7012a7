package command

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/escape"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/humanize"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/terminal"
)

func topCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top [--policy <name>] [--watch[=<interval>]]",
		Short: "Shows the keys that are denied most, on this node",
		Long: `
Shows the keys that were denied most often in the last minutes on this node. A
count is never too small, and too large by at most the number after ±. Clients
that are banned are marked; 'bans' lists those of all nodes.

With --watch the table is refreshed in place until an interrupt. In a pipe one
table follows another.`,
		Example: `  caddy redis-ratelimit top
  caddy redis-ratelimit top --policy api -n 5 --watch
  caddy redis-ratelimit top --watch=10s`,
		Args: cobra.NoArgs,
		RunE: runs(runTop),
	}
	policyFlag(cmd, "Only the policy of that `name` (default: all)")
	cmd.Flags().IntP("number", "n", 20, "How `many` keys")
	cmd.Flags().String("watch", "", "Refresh the table at this `interval`")
	cmd.Flags().Lookup("watch").NoOptDefVal = "2s"
	return cmd
}

func runTop(i *invocation) error {
	if !i.cmd.Flags().Changed("watch") {
		return i.showTop()
	}
	interval, err := caddy.ParseDuration(i.flag("watch"))
	if err != nil || interval <= 0 {
		return exitf(exitNotAsked, "--watch=%s: use a duration such as --watch=5s", i.flag("watch"))
	}
	ctx, stop := signal.NotifyContext(i.cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return i.watch(ctx, interval, (*invocation).showTop)
}

// showTop prints the table once.
func (i *invocation) showTop() error {
	query := url.Values{"n": {i.flag("number")}}
	if policy := i.flag("policy"); policy != "" {
		query.Set("policy", policy)
	}
	var report adminapi.TopReport
	err := i.ask(http.MethodGet, "top?"+query.Encode(), nil, &report)
	if err != nil || i.json {
		return err
	}
	i.terminal.Print("over the last " + humanize.Seconds(math.Ceil(report.Since)) + " on this node\n")
	if len(report.Keys) == 0 {
		i.terminal.Print("no key was denied\n")
		return nil
	}
	i.terminal.Print("\n")
	topTable(report.Keys).Write(i.terminal)
	return nil
}

func topTable(keys []adminapi.TopEntry) *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "DENIED", Right: true}, {Title: "±ERROR", Right: true}, {Title: "BANNED FOR", Right: true}, {Title: "POLICY"}, {Title: "KEY", Open: true},
	}}
	for _, k := range keys {
		t.Add(strconv.FormatInt(k.Denied, 10), "±"+strconv.FormatInt(k.Error, 10), banLeft(k.Banned), k.Policy, k.Key)
	}
	return t
}

// watch repeats show until the context ends. On a terminal each result replaces the one before. An error of
// the first call ends it. Later errors are shown, because Caddy may be restarted.
func (i *invocation) watch(ctx context.Context, interval time.Duration, show func(*invocation) error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	drawn := 0
	for first := true; ; first = false {
		var text bytes.Buffer
		drawing := *i
		drawing.terminal = i.terminal.To(&text)
		err := show(&drawing)
		switch {
		case err != nil && first:
			return err
		case err != nil && i.terminal.IsTerminal():
			text.WriteString("Error: " + escape.Text(err.Error()) + "\n")
		case err != nil:
			i.complain("Error: " + err.Error())
		}
		drawn = i.redraw(text.String(), drawn, first)
		if i.terminal.Err() != nil {
			return nil // the command reports it
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// redraw writes a text over one that took so many lines of the terminal, as far as it fits, and returns how
// many lines the new one takes.
func (i *invocation) redraw(text string, drawn int, first bool) int {
	if !i.terminal.IsTerminal() {
		if !first && !i.json && text != "" {
			text = "\n" + text
		}
		i.terminal.Print(text)
		return 0
	}
	if drawn > 0 {
		i.terminal.Print(fmt.Sprintf("\x1b[%dA\r\x1b[J", drawn))
	}
	drawn = 0
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		taken := terminal.Lines(line, i.terminal.Width)
		if drawn+taken >= i.terminal.Height {
			break
		}
		i.terminal.Print(line + "\n")
		drawn += taken
	}
	return drawn
}
