// Package terminal writes results for people, in colors on a terminal. In a pipe or a file they are plain.
package terminal

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"

	"golang.org/x/term"
)

// Writer writes to a terminal, a pipe or a file. Its copies share one destination and its first error.
type Writer struct {
	out        *firstError
	isTerminal bool
	colored    bool
}

// firstError is a writer that keeps its first error.
type firstError struct {
	out io.Writer
	err error
}

// Write implements [io.Writer].
func (w *firstError) Write(text []byte) (int, error) {
	n, err := w.out.Write(text)
	if w.err == nil {
		w.err = err
	}
	return n, err
}

// New returns a writer to out, and finds out whether that is a terminal.
func New(out io.Writer) Writer {
	w := Writer{out: &firstError{out: out}}
	file, ok := out.(*os.File)
	w.isTerminal = ok && term.IsTerminal(int(file.Fd()))
	w.colored = w.isTerminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return w
}

// IsTerminal reports whether the writer writes to a terminal.
func (w Writer) IsTerminal() bool { return w.isTerminal }

// Write implements [io.Writer].
func (w Writer) Write(text []byte) (int, error) { return w.out.Write(text) }

// Print writes a text as it is. [Writer.Err] returns its error.
func (w Writer) Print(text string) { _, _ = io.WriteString(w.out, text) }

// Err returns the first error of writing, such as that of a full disk. A closed pipe is no error: its
// reader has read enough.
func (w Writer) Err() error {
	if errors.Is(w.out.err, syscall.EPIPE) {
		return nil
	}
	return w.out.err
}

// The colors of a terminal. Bold heads stand out on a light and on a dark background.
const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	plain  = "\x1b[0m"
)

// wordColors are the words that have a color at the beginning of a text.
var wordColors = map[string]string{
	"ok": green, "allowed": green, "exempt": green, "warning": yellow, "failed": red, "denied": red, "rejected": red, "block": red, "banned": red,
}

func (w Writer) paint(text, color string) string {
	if !w.colored || color == "" {
		return text
	}
	return color + text + plain
}

// PaintWord colors a text that begins with a word such as denied, if the terminal has colors.
func (w Writer) PaintWord(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return w.paint(text, wordColors[word])
}
