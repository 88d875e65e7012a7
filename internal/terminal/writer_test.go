package terminal

import (
	"os"
	"strings"
	"testing"
)

func TestLines(t *testing.T) {
	for _, tt := range []struct {
		line          string
		columns, want int
	}{
		{"", 5, 1}, {"12345", 5, 1}, {"123456", 5, 2}, {"漢漢漢", 5, 2}, {"漢漢漢", 3, 3}, {bold + "12345" + plain, 5, 1},
		{strings.Repeat("e\u0301", 5), 5, 1},
	} {
		if got := Lines(tt.line, tt.columns); got != tt.want {
			t.Errorf("%q takes %d lines of %d columns; want %d", tt.line, got, tt.columns, tt.want)
		}
	}
}

func TestNew(t *testing.T) {
	device, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("this system has no /dev/ptmx")
	}
	defer device.Close() //nolint:errcheck // nothing was written
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	if w := New(device); !w.IsTerminal() || !w.colored {
		t.Errorf("got %+v", w)
	}
	t.Setenv("NO_COLOR", "1")
	if w := New(device); !w.IsTerminal() || w.colored {
		t.Errorf("got %+v; want no colors", w)
	}
	if w := New(new(strings.Builder)); w.IsTerminal() || w.colored {
		t.Errorf("got %+v; want no terminal", w)
	}
}

func TestWriter_PrintWords(t *testing.T) {
	for width, want := range map[int]string{0: "  one two three\n", 80: "  one two three\n", 11: "  one two\n  three\n", 3: "  one\n  two\n  three\n"} {
		var text strings.Builder
		if Sized(&text, width, 24, false).PrintWords("  one two three"); text.String() != want {
			t.Errorf("%d columns: got %q; want %q", width, text.String(), want)
		}
	}
}

func TestWriter_Err(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no /dev/full")
	}
	defer full.Close() //nolint:errcheck // its writes fail on purpose
	w := New(full)
	if w.Print("lost\n"); w.Err() == nil {
		t.Error("no error of a full disk")
	}
}
