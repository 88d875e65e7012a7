package credentials

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/secretfile"
)

// putFile writes a file.
func putFile(t testing.TB, path, text string) {
	t.Helper()
	assert.Must(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "password")
	const spaced = "\n se cret "
	for _, ending := range []string{"", "\n", "\r\n"} {
		for _, want := range []string{"secret", "secret\n", spaced} {
			if ending == "" && strings.HasSuffix(want, "\n") {
				continue
			}
			putFile(t, path, want+ending)
			got, err := readPassword(path)
			assert.ErrorIf(t, got != want || err != nil, "%q: got %q, %v; want %q", want+ending, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "is empty", "\n": "is empty", strings.Repeat("secret", maxFile): "is longer than",
	} {
		putFile(t, path, text)
		if got, err := readPassword(path); got != "" || err == nil || !strings.Contains(err.Error(), path+" "+want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.9q: got %q, %v", text, got, err)
		}
	}
	for _, path := range []string{filepath.Join(dir, "none"), dir} {
		_, err := readPassword(path)
		assert.ErrorIf(t, err == nil || strings.Count(err.Error(), path) != 1, "%s: got %v, want an error that names it", path, err)
	}
}

// TestFile_no_regular_file must not open a pipe, which would wait for a writer, nor a device.
func TestFile_no_regular_file(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	assert.Must(t, errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink(pipe, link)))
	for _, path := range []string{pipe, link, os.DevNull, "/dev/zero"} {
		if got, err := readPassword(path); got != "" || !errors.Is(err, secretfile.ErrNotRegular) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %q, %v; want errNotRegular", path, got, err)
		}
	}
}

// TestFile_secret_for_path has passwords in place of a path. No error may quote them.
func TestFile_secret_for_path(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{
		"hunter2", "/hunter2", "./hunter2", "aGVs/hunter2==", "/9j4/hunter2", "correct horse/hunter2", "../../hunter2/x",
		"hunter2/" + strings.Repeat("x", 300), "hunter2\x00", strings.Repeat("/hunter2", 10_000),
	} {
		if _, err := readPassword(secret); err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "an absolute path") {
			t.Errorf("%.20q: got %v; want an error without it", secret, err)
		}
	}
}

// TestFile_working_folder reads a file by its name alone, whose errors do not have the name.
func TestFile_working_folder(t *testing.T) {
	t.Chdir(t.TempDir())
	putFile(t, "password", "secret\n")
	got, err := readPassword("password")
	assert.ErrorIf(t, got != "secret" || err != nil, "got %q, %v", got, err)
	putFile(t, "password", "")
	_, err = readPassword("password")
	assert.ErrorIf(t, err == nil || err.Error() != "the file is empty; write the password into it", "an empty file: got %v", err)
}
