package caddytest

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
)

// Log stores the log of a Caddy process, one JSON object a line.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *Log) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(data)
}

// String returns the log so far.
func (b *Log) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// LogLine is one entry of the log.
type LogLine struct {
	Level   string `json:"level"`
	Logger  string `json:"logger"`
	Message string `json:"msg"`

	Text string `json:"-"` // the whole line
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
	return b.Lines(func(l LogLine) bool {
		return l.Logger == "redis_ratelimit" && l.Level == "warn" && strings.HasPrefix(l.Message, "redis cannot decide;")
	})
}

// Recoveries returns the lines that say that Redis decides again.
func (b *Log) Recoveries() []LogLine {
	return b.Lines(func(l LogLine) bool {
		return l.Logger == "redis_ratelimit" && l.Level == "info" && strings.HasPrefix(l.Message, "redis decides again")
	})
}
