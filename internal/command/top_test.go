package command

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/terminal"
)

// watched returns what three draws of a text of some lines write to a terminal of that size. The last draw
// fails.
func watched(t *testing.T, width, height, lines int) string {
	t.Helper()
	var text, complaints strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	i := &invocation{cmd: new(cobra.Command), terminal: terminal.Sized(&text, width, height, false)}
	i.cmd.SetErr(&complaints)
	draws := 0
	err := i.watch(ctx, time.Millisecond, func(i *invocation) error {
		if draws++; draws >= 3 {
			cancel()
			return errors.New("gone")
		}
		for n := range lines {
			i.terminal.Print(strconv.Itoa(draws) + "." + strconv.Itoa(n) + "\n")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return text.String() + complaints.String()
}

func TestWatch_terminal(t *testing.T) {
	const up = "\x1b[2A\r\x1b[J"
	if got, want := watched(t, 80, 24, 2), "1.0\n1.1\n"+up+"2.0\n2.1\n"+up+"Error: gone\n"; !strings.HasPrefix(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
}

func TestWatch_height(t *testing.T) {
	const up = "\x1b[2A\r\x1b[J"
	if got, want := watched(t, 80, 3, 9), "1.0\n1.1\n"+up+"2.0\n2.1\n"+up; !strings.HasPrefix(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
}

func TestWatch_long_lines(t *testing.T) {
	const up = "\x1b[2A\r\x1b[J"
	if got, want := watched(t, 2, 24, 1), "1.0\n"+up+"2.0\n"+up; !strings.HasPrefix(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
	if got, want := watched(t, 2, 4, 2), "1.0\n"+up+"2.0\n"+up; !strings.HasPrefix(got, want) {
		t.Errorf("got %q; want %q, because the second line does not fit", got, want)
	}
}

func TestWatch_pipe(t *testing.T) {
	if got, want := watched(t, 0, 0, 1), "1.0\n\n2.0\nError: gone\n"; !strings.HasPrefix(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
}
