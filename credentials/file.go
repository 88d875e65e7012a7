package credentials

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/secretfile"
)

// File is the path of a file with a password, and a [Provider] of it.
type File string

// Login reads the password, without one line break at the file's end. Links are followed. An empty file, one of more
// than 64 KiB and what is no regular file, such as a pipe or a device, are errors. Errors quote nothing of the file.
// They name its path where the folder in it exists, and leave it out otherwise: it may be the password itself, in
// place of a path.
func (f File) Login(context.Context) (Login, error) {
	password, err := readPassword(string(f))
	return Login{Password: password}, err
}

// Identity returns the path, so that another password in the file is the same login.
func (f File) Identity() string { return string(f) }

// maxFile is the most bytes of a password's file. A longer one is another file.
const maxFile = 64 << 10

func readPassword(path string) (string, error) {
	text, err := secretfile.Read(path, maxFile+1)
	password := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	shown := shownPath(path)
	switch {
	case err != nil && shown == unknownPath:
		return "", fmt.Errorf("reading the file: %w; name an existing file by an absolute path, or by one from the working folder", err)
	case err != nil:
		return "", fmt.Errorf("reading %s: %w", shown, err)
	case len(text) > maxFile:
		return "", fmt.Errorf("%s is longer than %d bytes; name a file that holds the password alone", shown, maxFile)
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
