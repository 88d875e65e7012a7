package accesslog

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxZstdWindow is how far a zstd file may refer back in its content, in bytes: the window of zstd --long. A
// file that needs more memory is refused.
const maxZstdWindow = 128 << 20

// unpack returns the text of a file and how it was packed.
func unpack(file io.Reader) (text io.ReadCloser, kind string, err error) {
	r := bufio.NewReaderSize(file, 64<<10)
	begin, _ := r.Peek(4) // reading the text returns the error again
	switch kind = "plain"; {
	case strings.HasPrefix(string(begin), "\x1f\x8b"):
		kind = "gzip"
		text, err = gzip.NewReader(r)
	case strings.HasPrefix(string(begin), "\x28\xb5\x2f\xfd"):
		kind = "zstd"
		text, err = newZstd(r)
	default:
		text = io.NopCloser(r)
	}
	if err != nil {
		return nil, kind, fmt.Errorf("reading %s: %w", kind, err)
	}
	return text, kind, nil
}

// newZstd unpacks without goroutines of its own.
func newZstd(r io.Reader) (io.ReadCloser, error) {
	d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxZstdWindow))
	if err != nil {
		return nil, err
	}
	return d.IOReadCloser(), nil
}
