package command

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"

	"golang.org/x/term"
)

// terminal is where a command writes to. On a terminal its tables have colors and are made to fit; in a
// pipe or a file every text is whole, plain and on one line, so that scripts can read it.
type terminal struct {
	out           io.Writer
	width, height int // of the terminal; 0: there is none
	colored       bool
	failed        *writeErrors // of out; nil: they are of no interest
}

// writeErrors is a writer that keeps its first error.
type writeErrors struct {
	out   io.Writer
	first error
}

// Write implements [io.Writer].
func (w *writeErrors) Write(text []byte) (int, error) {
	n, err := w.out.Write(text)
	if w.first == nil {
		w.first = err
	}
	return n, err
}

func newTerminal(out io.Writer) terminal {
	failed := &writeErrors{out: out}
	s := terminal{out: failed, failed: failed}
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return s
	}
	s.width, s.height = 80, 24 // of one that does not tell
	if width, height, err := term.GetSize(int(file.Fd())); err == nil && width > 0 && height > 0 {
		s.width, s.height = width, height
	}
	s.colored = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return s
}

func (t terminal) isTerminal() bool { return t.width > 0 }

// print writes a text. What fails is kept for the command's end.
func (t terminal) print(text string) { _, _ = io.WriteString(t.out, text) }

// failure is the error by which something could not be written, such as a full disk. A closed pipe is
// none: its reader has what it wants.
func (t terminal) failure() error {
	if t.failed == nil || errors.Is(t.failed.first, syscall.EPIPE) {
		return nil
	}
	return t.failed.first
}

// printWords writes a line of words, on a terminal over as many lines as it takes.
func (t terminal) printWords(text string) {
	if t.isTerminal() {
		text = strings.Join(wrapWords(text, t.width), "\n")
	}
	t.print(text + "\n")
}

// The colors of a terminal. Bold heads stand out on a light and on a dark one.
const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	plain  = "\x1b[0m"
)

// wordColors are the words that have a color of their own, where they begin a cell.
var wordColors = map[string]string{
	"ok": green, "allowed": green, "exempt": green, "warning": yellow, "failed": red, "denied": red, "rejected": red,
}

func (t terminal) paint(text, color string) string {
	if !t.colored || color == "" {
		return text
	}
	return color + text + plain
}

// paintWord gives a text that begins with one of the tones its color.
func (t terminal) paintWord(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return t.paint(text, wordColors[word])
}
