package terminal

import (
	"os"
	"strings"
	"testing"
)

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
