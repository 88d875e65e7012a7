package caddytest

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
)

// logBuffer stores the log of a Caddy process, one JSON object a line.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *logBuffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(data)
}

// String returns the log so far.
func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// logLine is one entry of the log.
type logLine struct {
	Level   string `json:"level"`
	Logger  string `json:"logger"`
	Message string `json:"msg"`

	text string
}

// lines returns the entries that match.
func (b *logBuffer) lines(match func(logLine) bool) []logLine {
	var found []logLine
	for text := range strings.Lines(b.String()) {
		line := logLine{text: text}
		if json.Unmarshal([]byte(text), &line) == nil && match(line) {
			found = append(found, line)
		}
	}
	return found
}

// ours reports whether a line comes from this module.
func ours(l logLine) bool {
	return strings.HasPrefix(l.Logger, "redis_ratelimit") || strings.HasPrefix(l.Logger, "http.handlers.redis_ratelimit")
}

// outages and recoveries return the lines of Redis failing and deciding again.
func (b *logBuffer) outages() []logLine {
	return b.lines(func(l logLine) bool {
		return l.Logger == "redis_ratelimit" && l.Level == "warn" && strings.HasPrefix(l.Message, "redis cannot decide;")
	})
}

func (b *logBuffer) recoveries() []logLine {
	return b.lines(func(l logLine) bool {
		return l.Logger == "redis_ratelimit" && l.Level == "info" && strings.HasPrefix(l.Message, "redis decides again")
	})
}
