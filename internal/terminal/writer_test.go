package terminal

import (
	"os"
	"testing"
)

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
