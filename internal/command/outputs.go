package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// output is a file to write. It is created beside its place and renamed when it is complete, so that a
// failure leaves an older file unchanged. Pipes and devices are written directly.
type output struct {
	*os.File

	place string // where the file belongs; empty if it is written in place
}

// openOutput creates the file for a path, with the mode for a new one. Only a file that begins as the output does is
// replaced: no log, and no file of a configuration.
func openOutput(path, begins string, mode fs.FileMode) (*output, error) {
	place := resolved(path)
	older, err := os.OpenFile(place, os.O_WRONLY, 0) // fails for a file that is not writable
	switch {
	case err == nil:
		info, err := older.Stat()
		if err != nil || !info.Mode().IsRegular() {
			return &output{File: older}, err
		}
		_ = older.Close() // nothing was written
		if !beginsWith(place, begins) {
			return nil, fmt.Errorf("%s is there, and no such output: name another file to write", path)
		}
		mode = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	name := fmt.Sprintf("%s.%08x", place, rand.Uint32()) //nolint:gosec // it need not be secret: O_EXCL opens no existing file
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if path := (&fs.PathError{}); errors.As(err, &path) {
		path.Path = place // the name from the flag
	}
	if err != nil {
		return nil, err
	}
	return &output{File: file, place: place}, nil
}

// beginsWith reports whether a file can be read and begins with a text.
func beginsWith(path, text string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close() //nolint:errcheck // it was only read
	begin := make([]byte, len(text))
	_, err = io.ReadFull(file, begin)
	return err == nil && string(begin) == text
}

// resolved returns a path without symbolic links, as far as the path exists.
func resolved(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(folder, filepath.Base(path))
	}
	return path
}

// keep renames the file to its place, if there is one.
func (o *output) keep() error {
	if o == nil {
		return nil
	}
	if err := o.Close(); err != nil || o.place == "" {
		return err
	}
	place := o.place
	o.place = ""
	return os.Rename(o.Name(), place)
}

// discard removes a file that was not kept.
func (o *output) discard() {
	if o != nil {
		_ = o.Close() // its content is dropped
	}
	if o != nil && o.place != "" {
		_ = os.Remove(o.Name())
	}
}

// outputs are the files that a replay writes; nil without their flag.
type outputs struct{ report, decisions *output }

// openOutputs creates the files that the flags name.
func (i *invocation) openOutputs() (*outputs, error) {
	o, err := new(outputs), error(nil)
	if path := i.flag("report"); path != "" {
		o.report, err = openOutput(path, "<!DOCTYPE html>", 0o666)
	}
	if path := i.flag("decisions"); path != "" && err == nil {
		o.decisions, err = openOutput(path, "line,time,", 0o600) // it holds clients' keys
	}
	if err == nil && o.report != nil && o.decisions != nil && o.report.place != "" && o.report.place == o.decisions.place {
		err = fmt.Errorf("--report and --decisions name the same file, %s: use two", o.report.place)
	}
	if err != nil {
		o.discard()
		return nil, err
	}
	return o, nil
}

// keep renames the files to their places.
func (o *outputs) keep() error { return errors.Join(o.report.keep(), o.decisions.keep()) }

// discard removes the files that were not kept.
func (o *outputs) discard() {
	o.report.discard()
	o.decisions.discard()
}
