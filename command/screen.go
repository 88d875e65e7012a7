package command

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"

	"golang.org/x/term"
)

// screen is where a command writes to. On a terminal its tables have colors and are made to fit; in a
// pipe or a file every text is whole, plain and on one line, so that scripts can read it.
type screen struct {
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

func newScreen(out io.Writer) screen {
	failed := &writeErrors{out: out}
	s := screen{out: failed, failed: failed}
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

func (s screen) isTerminal() bool { return s.width > 0 }

// print writes a text. What fails is kept for the command's end.
func (s screen) print(text string) { _, _ = io.WriteString(s.out, text) }

// failure is the error by which something could not be written, such as a full disk. A closed pipe is
// none: its reader has what it wants.
func (s screen) failure() error {
	if s.failed == nil || errors.Is(s.failed.first, syscall.EPIPE) {
		return nil
	}
	return s.failed.first
}

// printWords writes a line of words, on a terminal over as many lines as it takes.
func (s screen) printWords(text string) {
	if s.isTerminal() {
		text = strings.Join(wrapWords(text, s.width), "\n")
	}
	s.print(text + "\n")
}

// The colors of a terminal. Bold heads stand out on a light and on a dark one.
const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	plain  = "\x1b[0m"
)

// tones are the words that have a color of their own, where they begin a cell.
var tones = map[string]string{
	"ok": green, "allowed": green, "exempt": green, "warning": yellow, "failed": red, "denied": red, "rejected": red,
}

func (s screen) paint(text, color string) string {
	if !s.colored || color == "" {
		return text
	}
	return color + text + plain
}

// paintWord gives a text that begins with one of the tones its color.
func (s screen) paintWord(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return s.paint(text, tones[word])
}
