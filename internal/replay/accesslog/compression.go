package accesslog

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxZstdWindow is how far a zstd file may refer back, in bytes: that of zstd --long. One that needs more is refused.
const maxZstdWindow = 128 << 20

// unread are the kinds of files that are not read, by how they begin.
var unread = map[string]string{"\xfd7zXZ": "xz", "BZh": "bzip2", "PK\x03\x04": "zip", "\xff\xfe": "UTF-16", "\xfe\xff": "UTF-16"}

// unpack returns the text of a file and how it was packed.
func unpack(file io.Reader) (text io.ReadCloser, kind string, err error) {
	r := bufio.NewReaderSize(file, 64<<10)
	begin, _ := r.Peek(5) // reading the text returns the error again
	for prefix, kind := range unread {
		if strings.HasPrefix(string(begin), prefix) {
			return nil, kind, fmt.Errorf("a file of %s: unpack it, or convert it to UTF-8", kind)
		}
	}
	switch kind = "plain"; {
	case strings.HasPrefix(string(begin), "\x1f\x8b"):
		kind = "gzip"
		text, err = gzip.NewReader(r)
	case strings.HasPrefix(string(begin), "\x28\xb5\x2f\xfd"):
		kind = "zstd"
		var d *zstd.Decoder // without goroutines of its own
		if d, err = zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow)); err == nil {
			text = d.IOReadCloser()
		}
	default:
		text = io.NopCloser(r)
	}
	if err != nil {
		return nil, kind, fmt.Errorf("reading %s: %w", kind, err)
	}
	return text, kind, nil
}
