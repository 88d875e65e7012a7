package dial

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/regularfile"
)

// MaxPasswordFile is the most bytes of a password's file. A longer one is another file.
const MaxPasswordFile = 64 << 10

// ReadPassword returns what a file holds, without one line break at its end. Links are followed. An empty
// file, one of more than 64 KiB and what is no regular file, such as a pipe or a device, are errors.
// Errors quote nothing of the file. They name its path where the folder in it exists, and leave it out
// otherwise: it may be the password itself, in place of a path.
func ReadPassword(path string) (string, error) {
	text, err := regularfile.Read(path, MaxPasswordFile+1)
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
