package accesslog

import (
	"io"
	"sync/atomic"
)

// The bounds of the window in which lines are sorted.
const (
	// defaultWindow is the default of ReaderOptions.Window.
	defaultWindow = 65_536

	// maxWindowBytes bounds the text in the window, for lines of any length.
	maxWindowBytes = 64 << 20
)

// ReaderOptions are the logs to read, and how to read them.
type ReaderOptions struct {
	// Files are read as one log, in any order. The name - is Stdin.
	Files []string

	// Stdin is read for the name -.
	Stdin io.Reader

	// Window is the number of entries, of all files together, within which lines are sorted by arrival.
	// Default: [defaultWindow]. It bounds the memory, by default to some 60 MB for short lines and 150 MB
	// for long ones, because the window also ends at 64 MiB of text.
	Window int

	// TimeLayouts are Go's layouts for times in JSON, or Caddy's names of them. They are tried before all
	// others. They come from the time_format of the configuration that wrote the log.
	TimeLayouts []string

	// DurationFormats are the different duration_formats of the logs of a configuration. Default: seconds. If numbers can
	// have several units the first lines of a file decide.
	DurationFormats []string

	// Format is the format of all files; nil finds out that of each.
	Format *Format

	// AtSecondStart plays requests whose time is in whole seconds at the start of their second. Otherwise those of a second
	// are spread over it.
	AtSecondStart bool

	// LongRequests returns also those requests at their start that ran for longer than the window covers, such
	// as WebSockets, which a log has hours after those that they ran beside. Files are read twice for it. A
	// stream that cannot be read twice has them late. Without a duration in a log it changes nothing.
	LongRequests bool

	// Read counts the bytes that are read of the files, packed as they are; nil: nothing asks for them.
	Read *atomic.Int64

	// Responses keeps the header of the response for Entry.ResponseHeader.
	Responses bool
}

// newFileFormat returns the format of a file that has not been looked at.
func newFileFormat(o *ReaderOptions) fileFormat {
	return fileFormat{asked: o.Format, hints: hints{timeLayouts: o.TimeLayouts, durationFormats: o.DurationFormats, responses: o.Responses}}
}
