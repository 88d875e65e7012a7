package display

import (
	"errors"
	"io"
	"syscall"
)

// Writer writes a result for people, as plain text. Its copies share one destination and its first error.
type Writer struct{ out *firstError }

// firstError is a writer that keeps its first error.
type firstError struct {
	out io.Writer
	err error
}

// NewWriter returns a writer to out.
func NewWriter(out io.Writer) Writer { return Writer{&firstError{out: out}} }

// Write implements [io.Writer].
func (w Writer) Write(text []byte) (int, error) {
	n, err := w.out.out.Write(text)
	if w.out.err == nil {
		w.out.err = err
	}
	return n, err
}

// Print writes a text as it is. [Writer.Err] returns its error.
func (w Writer) Print(text string) { _, _ = io.WriteString(w, text) }

// Err returns the first error of writing, such as that of a full disk. A closed pipe is no error: its
// reader has read enough.
func (w Writer) Err() error {
	if errors.Is(w.out.err, syscall.EPIPE) {
		return nil
	}
	return w.out.err
}
