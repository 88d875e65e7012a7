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
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/humanize"
)

func topCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top [--policy <name>] [--watch[=<interval>]]",
		Short: "Shows who is denied most, on this node",
		Long: `
Shows the keys that were denied most often in the last minutes on this node. A
count may be too large by as much as stands behind ±, and is never too small.

With --watch the table is refreshed in place until it is interrupted; in a pipe
one table follows another.`,
		Example: `  caddy redis-ratelimit top
  caddy redis-ratelimit top --policy api -n 5 --watch
  caddy redis-ratelimit top --watch=10s`,
		Args: cobra.NoArgs,
		RunE: runs(runTop),
	}
	policyFlag(cmd, "Only the policy of that `name` (default: all)")
	cmd.Flags().IntP("number", "n", 20, "How `many` keys")
	cmd.Flags().String("watch", "", "Refresh the table in such an `interval`")
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
	i.terminal.print("over the last " + humanize.Time(math.Ceil(report.Since)) + " on this node\n")
	if len(report.Keys) == 0 {
		i.terminal.print("nobody was denied\n")
		return nil
	}
	i.terminal.print("\n")
	topTable(report.Keys).write(i.terminal)
	return nil
}

func topTable(keys []adminapi.TopEntry) *textTable {
	t := &textTable{columns: []column{{title: "DENIED", right: true}, {title: "±ERROR", right: true}, {title: "POLICY"}, {title: "KEY", open: true}}}
	for _, k := range keys {
		t.add(strconv.FormatInt(k.Denied, 10), "±"+strconv.FormatInt(k.Error, 10), k.Policy, k.Key)
	}
	return t
}

// watch shows something again and again until the context ends. On a terminal each takes the place of
// the one before. What fails at first ends it; later failures are shown, because Caddy may come back.
func (i *invocation) watch(ctx context.Context, interval time.Duration, show func(*invocation) error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	drawn := 0
	for first := true; ; first = false {
		var text bytes.Buffer
		drawing := *i
		drawing.terminal.out = &text
		err := show(&drawing)
		switch {
		case err != nil && first:
			return err
		case err != nil && i.terminal.isTerminal():
			text.WriteString("Error: " + printable(err.Error()) + "\n")
		case err != nil:
			i.complain("Error: " + err.Error())
		}
		drawn = i.redraw(text.String(), drawn, first)
		if i.terminal.failure() != nil {
			return nil // the command reports it
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// redraw writes a text in the place of one that took so many lines of the terminal, as much of it as fits
// there, and tells how many lines it took.
func (i *invocation) redraw(text string, drawn int, first bool) int {
	if !i.terminal.isTerminal() {
		if !first && !i.json && text != "" {
			text = "\n" + text
		}
		i.terminal.print(text)
		return 0
	}
	if drawn > 0 {
		i.terminal.print(fmt.Sprintf("\x1b[%dA\r\x1b[J", drawn))
	}
	drawn = 0
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		taken := screenLines(line, i.terminal.width)
		if drawn+taken >= i.terminal.height {
			break
		}
		i.terminal.print(line + "\n")
		drawn += taken
	}
	return drawn
}
