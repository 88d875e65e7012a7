package caddytest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// Log is what a process prints; that of Caddy is one JSON object a line. The process writes it to a file, not to a
// pipe: what it has logged before a response can be read with the response.
type Log struct{ path string }

// OpenLog makes an empty log, and returns the file for the process to write.
func OpenLog(t testing.TB) (*Log, *os.File) {
	t.Helper()
	file := assert.NoError(os.OpenFile(filepath.Join(t.TempDir(), "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600))(t)
	return &Log{file.Name()}, file
}

// String returns the log so far.
func (b *Log) String() string {
	text, err := os.ReadFile(b.path)
	if err != nil {
		panic(err) // the test's folder is gone
	}
	return string(text)
}

// LogLine is one entry of the log.
type LogLine struct {
	Level   string `json:"level"`
	Logger  string `json:"logger"`
	Message string `json:"msg"`

	Text string `json:"-"` // the whole line
}

// Has reports whether an entry has a message.
func (b *Log) Has(message string) bool {
	return strings.Contains(b.String(), `"msg":"`+message)
}

// Lines returns the entries that match.
func (b *Log) Lines(match func(LogLine) bool) []LogLine {
	var found []LogLine
	for text := range strings.Lines(b.String()) {
		line := LogLine{Text: text}
		if json.Unmarshal([]byte(text), &line) == nil && match(line) {
			found = append(found, line)
		}
	}
	return found
}

// Ours reports whether a line comes from this module.
func Ours(l LogLine) bool {
	return strings.HasPrefix(l.Logger, "redis_ratelimit") || strings.HasPrefix(l.Logger, "http.handlers.redis_ratelimit")
}

// Outages returns the lines that say that Redis cannot decide.
func (b *Log) Outages() []LogLine {
	return b.about("warn", "redis cannot decide;")
}

// Recoveries returns the lines that say that Redis decides again.
func (b *Log) Recoveries() []LogLine {
	return b.about("info", "redis decides again")
}

// about returns the lines of this module's app whose message begins with a text. Most polls find none, in long logs.
func (b *Log) about(level, message string) []LogLine {
	if !b.Has(message) {
		return nil
	}
	return b.Lines(func(l LogLine) bool {
		return l.Logger == "redis_ratelimit" && l.Level == level && strings.HasPrefix(l.Message, message)
	})
}
