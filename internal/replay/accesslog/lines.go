package accesslog

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxLine is the length of the longest line that is read, in bytes. A longer one is malformed, and never in
// memory as a whole.
const maxLine = 1 << 20

// lines reads a file line by line.
type lines struct {
	r *bufio.Reader
}

func newLines(r io.Reader) lines { return lines{bufio.NewReaderSize(r, maxLine+2)} }

// next returns a line without its end, valid until the next call. It returns the beginning of a line that is
// too long. The line at which reading fails is lost, because it may be incomplete.
func (l lines) next() (line []byte, tooLong bool, err error) {
	line, err = l.r.ReadSlice('\n')
	switch {
	case err == nil, errors.Is(err, io.EOF) && len(line) > 0:
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		return line, len(line) > maxLine, nil
	case !errors.Is(err, bufio.ErrBufferFull):
		return nil, false, err
	}
	line = bytes.Clone(line[:shownText*4])
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = l.r.ReadSlice('\n')
	}
	if errors.Is(err, io.EOF) {
		err = nil // the next call returns it
	}
	return line, true, err
}
