// Package secretfile reads the small files that a login and a TLS client are made of, again and again: passwords,
// certificates, keys. It opens no pipe and no device, which could block or act. [Redact]
// hides configured values that may be secrets themselves. It imports nothing of this module.
package secretfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ErrNotRegular is the error of a file that cannot be read again, such as a pipe.
var ErrNotRegular = errors.New("it is no regular file; name one that can be read again at every connection")

// Read reads a regular file, up to so many bytes. Links are followed. Its errors do not name the path.
func Read(path string, most int64) ([]byte, error) {
	text, err := readRegular(path, most)
	if cause := (&fs.PathError{}); errors.As(err, &cause) {
		err = cause.Err
	}
	return text, err
}

func readRegular(path string, most int64) ([]byte, error) {
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
	return io.ReadAll(io.LimitReader(file, most))
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
