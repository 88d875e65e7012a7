package crawlers

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"sync/atomic"
	"time"
)

// File is a file of ranges. [OpenFile] reads one, and [File.Look] reads it again where it has changed.
type File struct {
	path    string
	now     func() time.Time
	content atomic.Pointer[content]

	// Of the looks, of which there is one at a time.
	seen    fs.FileInfo // at the last look
	refused fs.FileInfo // the one that problem is about; nil: none
	problem string      // that the last look has met; empty: none
	wasOld  bool
}

// content is what a file had when it was readable last.
type content struct {
	ranges *Ranges
	info   fs.FileInfo
}

const (
	// LookInterval is the time between two looks at a file.
	LookInterval = 10 * time.Second

	// OldAfter is how old a file is that cannot make a claim forged: addresses that are new since then are missing.
	OldAfter = 7 * 24 * time.Hour

	largestFile = 4 << 20
)

// OpenFile reads a file of ranges.
func OpenFile(path string) (*File, error) {
	f := &File{path: path, now: time.Now}
	read, err := readContent(path)
	if err != nil {
		return nil, err
	}
	f.content.Store(read)
	f.seen = read.info
	return f, nil
}

// Path returns the file's path.
func (f *File) Path() string { return f.path }

// Len returns how many ranges count.
func (f *File) Len() int { return f.content.Load().ranges.Len() }

// Modified returns when the ranges that count were written.
func (f *File) Modified() time.Time { return f.content.Load().info.ModTime() }

// IsOld reports whether the ranges are too old to make a claim forged.
func (f *File) IsOld() bool { return f.now().Sub(f.Modified()) > OldAfter }

// Has returns what the ranges say of an address: verified, forged, or unknown where they are too old to have all addresses.
func (f *File) Has(a netip.Addr) Status {
	switch {
	case f.content.Load().ranges.Contains(a):
		return Verified
	case f.IsOld():
		return Unknown
	}
	return Forged
}

// Finding is what a look at a file has found. The zero value is nothing new.
type Finding struct {
	Changed bool  // the ranges were read anew
	Problem error // why they were not, at the first look that met it; the last ones go on to count
	Old     bool  // they have become too old
}

// Look reads the file if it has changed, and if a look before has seen the same change: files may be half written.
func (f *File) Look() (found Finding) {
	current := f.content.Load()
	info, err := os.Stat(f.path)
	switch {
	case err != nil:
		err = cause(err)
	case isSame(info, current.info):
		f.problem = ""
	case isSame(info, f.seen) && !isSame(info, f.refused):
		found.Changed, err = f.read(info)
	}
	if info != nil {
		f.seen = info
	}
	if err != nil && err.Error() != f.problem {
		f.problem, found.Problem = err.Error(), err
	}
	if f.IsOld() && !f.wasOld {
		f.wasOld, found.Old = true, true
	}
	return found
}

// read has the file's ranges count, if they are good.
func (f *File) read(info fs.FileInfo) (changed bool, err error) {
	read, err := readContent(f.path)
	if err != nil {
		f.refused = info
		return false, err
	}
	f.content.Store(read)
	f.refused, f.wasOld, f.problem = nil, false, ""
	return true, nil
}

// isSame reports whether a file is as it was; nil: there was none.
func isSame(a, b fs.FileInfo) bool {
	return b != nil && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && os.SameFile(a, b)
}

// readContent reads a file. Its error names no path.
func readContent(path string) (*content, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, cause(err)
	case !info.Mode().IsRegular():
		return nil, errors.New("it is no file") // a pipe would have no end
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, cause(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(file, largestFile+1))
	switch {
	case err != nil:
		return nil, cause(err)
	case len(text) > largestFile:
		return nil, fmt.Errorf("it is larger than %d MiB", largestFile>>20)
	}
	ranges, err := ParseRanges(text)
	if err != nil {
		return nil, err
	}
	return &content{ranges, info}, nil
}

// cause returns an error of the system without the path.
func cause(err error) error {
	var ofPath *fs.PathError
	if errors.As(err, &ofPath) {
		return ofPath.Err
	}
	return err
}
