package command

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// watched is what three draws of a text of some lines look like, the last of them one that failed, on a
// screen of that size.
func watched(t *testing.T, width, height, lines int) string {
	t.Helper()
	var text, complaints strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	i := &invocation{cmd: new(cobra.Command), terminal: terminal{out: &text, width: width, height: height}}
	i.cmd.SetErr(&complaints)
	draws := 0
	err := i.watch(ctx, time.Millisecond, func(i *invocation) error {
		if draws++; draws >= 3 {
			cancel()
			return errors.New("gone")
		}
		for n := range lines {
			i.terminal.print(strconv.Itoa(draws) + "." + strconv.Itoa(n) + "\n")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return text.String() + complaints.String()
}

func TestWatch_draws_in_place_on_a_terminal(t *testing.T) {
	const up = "\x1b[2A\r\x1b[J"
	if got, want := watched(t, 80, 24, 2), "1.0\n1.1\n"+up+"2.0\n2.1\n"+up+"Error: gone\n"; !strings.HasPrefix(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
}

func TestWatch_keeps_within_the_terminal(t *testing.T) {
	const up = "\x1b[2A\r\x1b[J"
	if got, want := watched(t, 80, 3, 9), "1.0\n1.1\n"+up+"2.0\n2.1\n"+up; !strings.HasPrefix(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
}

func TestWatch_counts_the_lines_of_the_terminal(t *testing.T) {
	for _, tt := range []struct {
		line          string
		columns, want int
	}{
		{"", 5, 1}, {"12345", 5, 1}, {"123456", 5, 2}, {"漢漢漢", 5, 2}, {"漢漢漢", 3, 3}, {bold + "12345" + plain, 5, 1},
		{strings.Repeat("e\u0301", 5), 5, 1},
	} {
		if got := screenLines(tt.line, tt.columns); got != tt.want {
			t.Errorf("%q takes %d lines of %d columns; want %d", tt.line, got, tt.columns, tt.want)
		}
	}
}

func TestWatch_draws_in_place_what_runs_over_the_edge(t *testing.T) {
	const up = "\x1b[2A\r\x1b[J"
	if got, want := watched(t, 2, 24, 1), "1.0\n"+up+"2.0\n"+up; !strings.HasPrefix(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
	if got, want := watched(t, 2, 4, 2), "1.0\n"+up+"2.0\n"+up; !strings.HasPrefix(got, want) {
		t.Errorf("got %q; want %q, because the second line does not fit", got, want)
	}
}

func TestWatch_prints_one_after_another_in_a_pipe(t *testing.T) {
	if got, want := watched(t, 0, 0, 1), "1.0\n\n2.0\nError: gone\n"; !strings.HasPrefix(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
}

func TestScreen_knows_a_terminal(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("this system has no /dev/ptmx")
	}
	defer terminal.Close() //nolint:errcheck // nothing was written
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	if s := newTerminal(terminal); !s.isTerminal() || !s.colored {
		t.Errorf("got %+v", s)
	}
	t.Setenv("NO_COLOR", "1")
	if s := newTerminal(terminal); !s.isTerminal() || s.colored {
		t.Errorf("got %+v; want no colors", s)
	}
	if s := newTerminal(new(strings.Builder)); s.isTerminal() || s.colored {
		t.Errorf("got %+v; want no terminal", s)
	}
}
