package dial

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// MaxPasswordFile is the most bytes of a password's file. A longer one is another file.
const MaxPasswordFile = 64 << 10

// ReadPassword returns what a file holds, without one line break at its end. Links are followed. An empty
// file, one of more than 64 KiB and what is no regular file, such as a pipe or a device, are errors.
// Errors quote nothing of the file. They name its path where the folder in it exists, and leave it out
// otherwise: it may be the password itself, in place of a path.
func ReadPassword(path string) (string, error) {
	text, err := readBounded(path)
	if cause := (&fs.PathError{}); errors.As(err, &cause) {
		err = cause.Err
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	shown := shownPath(path)
	switch {
	case err != nil && shown == unknownPath:
		return "", fmt.Errorf("reading the file: %w; name an existing file by an absolute path, or by one from the working folder", err)
	case err != nil:
		return "", fmt.Errorf("reading %s: %w", shown, err)
	case len(text) > MaxPasswordFile:
		return "", fmt.Errorf("%s is longer than %d bytes; name a file that holds the password alone", shown, MaxPasswordFile)
	case password == "":
		return "", fmt.Errorf("%s is empty; write the password into it", shown)
	}
	return password, nil
}

// unknownPath stands for a path that may be none.
const unknownPath = "the file"

// shownPath returns a path for an error, or [unknownPath] where it may be a password: nothing before
// its last slash is a folder. Passwords in base64 have slashes, so that these alone make no path.
func shownPath(path string) string {
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() || dir == filepath.Dir(dir) {
		return unknownPath
	}
	return path
}

// ErrNotRegular is the error of a password file that cannot be read again, such as a pipe.
var ErrNotRegular = errors.New("it is no regular file; name one that can be read again at every connection")

// readBounded reads a regular file up to a byte more than the bound. It does not open other files, which
// could block or act.
func readBounded(path string) ([]byte, error) {
	if err := checkRegular(os.Stat(path)); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may have become a pipe
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	if err := checkRegular(file.Stat()); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(file, MaxPasswordFile+1))
}

// checkRegular refuses what is no regular file.
func checkRegular(info fs.FileInfo, err error) error {
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return syscall.EISDIR
	case !info.Mode().IsRegular():
		return ErrNotRegular
	}
	return nil
}
