package accesslog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxZstdWindow is how far a zstd file may refer back in its content, in bytes: the window of zstd --long. A
// file that needs more memory is refused.
const maxZstdWindow = 128 << 20

// kinds are the kinds of files by their first bytes. Kinds that cannot be read are listed for their error
// message.
var kinds = []struct {
	begins     string
	kind       string
	unreadable bool
}{
	{begins: "\x1f\x8b", kind: "gzip"},
	{begins: "\x28\xb5\x2f\xfd", kind: "zstd"},
	{begins: "\xef\xbb\xbf", kind: "plain"}, // UTF-8 with a byte order mark
	{begins: "\xfd7zXZ\x00", kind: "xz", unreadable: true},
	{begins: "BZh", kind: "bzip2", unreadable: true},
	{begins: "PK\x03\x04", kind: "zip", unreadable: true},
	{begins: "\x04\x22\x4d\x18", kind: "lz4", unreadable: true},
	{begins: "\xff\xfe", kind: "UTF-16", unreadable: true},
	{begins: "\xfe\xff", kind: "UTF-16", unreadable: true},
}

// errUnreadable is the error for a kind of file that this package does not read.
var errUnreadable = errors.New("only plain text, gzip and zstd can be read")

// unpack returns the text of a file and how it was packed.
func unpack(file io.Reader) (text io.ReadCloser, kind string, err error) {
	r := bufio.NewReaderSize(file, 64<<10)
	begin, _ := r.Peek(8) // reading the text returns the error again
	for _, k := range kinds {
		if !strings.HasPrefix(string(begin), k.begins) {
			continue
		}
		switch {
		case k.unreadable:
			return nil, k.kind, fmt.Errorf("this is %s: %w", k.kind, errUnreadable)
		case k.kind == "gzip":
			text, err = gzip.NewReader(r)
		case k.kind == "zstd":
			text, err = newZstd(r)
		default:
			_, err = r.Discard(len(k.begins))
			text = io.NopCloser(r)
		}
		if err != nil {
			return nil, k.kind, fmt.Errorf("reading %s: %w", k.kind, err)
		}
		return text, k.kind, nil
	}
	return io.NopCloser(r), "plain", nil
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
