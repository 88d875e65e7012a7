package command

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// screen is what a terminal of 80 columns shows of one line that is written again and again.
type screen struct {
	text   []rune
	column int
}

// Write implements [io.Writer].
func (s *screen) Write(text []byte) (int, error) {
	for _, r := range string(text) {
		switch {
		case r == '\r':
			s.column = 0
			continue
		case s.column == len(s.text):
			s.text = append(s.text, r)
		default:
			s.text[s.column] = r
		}
		s.column++
	}
	return len(text), nil
}

func (s *screen) shown() string { return strings.TrimRight(string(s.text), " ") }

// TestShowProgress shows a text at each tick in place of the one before, and erases the last.
func TestShowProgress(t *testing.T) {
	var terminal screen
	ticks, written := make(chan time.Time), make(chan string)
	texts := []string{"a long text that is replaced", "short", "\x1b[31mhostile\n", strings.Repeat("é", 200)}
	var next atomic.Int64
	out := writerFunc(func(text []byte) (int, error) {
		n, err := terminal.Write(text)
		written <- terminal.shown()
		return n, err
	})
	began := time.Now()
	end := showProgress(out, ticks, func() string { return texts[next.Add(1)-1] })
	for i, want := range []string{"1s  a long text that is replaced", "2s  short", `3s  \x1b[31mhostile\x0a`} {
		ticks <- began.Add(time.Duration(i+1) * time.Second)
		assert.Equal(t, <-written, want, "tick %d", i)
	}
	ticks <- began.Add(time.Hour)
	got := <-written
	assert.ErrorIf(t, utf8.RuneCountInString(got) != progressWidth || !strings.HasSuffix(got, "é…"), "got %q", got)
	go end()
	<-written
	assert.Equal(t, <-written, "", "what is left")
	assert.Equal(t, terminal.column, 0, "the column of the cursor")
}

type writerFunc func(text []byte) (int, error)

// Write implements [io.Writer].
func (f writerFunc) Write(text []byte) (int, error) { return f(text) }

// TestShowProgress_of_a_short_command writes nothing before the first tick.
func TestShowProgress_of_a_short_command(t *testing.T) {
	var out bytes.Buffer
	showProgress(&out, nil, func() string { return "" })()
	assert.Equal(t, out.String(), "", "what is written")
}

// TestTerminalOf finds no terminal in pipes, files and buffers.
func TestTerminalOf(t *testing.T) {
	reader, writer, err := os.Pipe()
	assert.Must(t, err)
	file := assert.NoError(os.Create(t.TempDir() + "/log"))(t)
	for _, out := range []io.Writer{writer, file, new(bytes.Buffer), io.Discard} {
		assert.ErrorIf(t, terminalOf(out) != nil, "%T is a terminal", out)
	}
	assert.Must(t, reader.Close())
	assert.Must(t, writer.Close())
	assert.Must(t, file.Close())
	(&invocation{}).shows(func() string { t.Error("asked what to show without a terminal"); return "" })()
}

func TestPlaying(t *testing.T) {
	for _, tt := range []struct {
		read, size int64
		suggests   bool
		want       string
	}{
		{2_500_000, 0, false, "playing the log: 2 MB read"},
		{0, 300, false, "playing the log: 0 %"},
		{299, 300, true, "playing the log: 99 %"},
		{300, 300, true, "trying other limits"},
		{300, 300, false, "playing the log: 100 %"},
		{400, 300, false, "playing the log: 100 %"}, // the file has grown
	} {
		var read atomic.Int64
		read.Store(tt.read)
		assert.Equal(t, playing(&read, tt.size, tt.suggests)(), tt.want, "%+v", tt)
	}
}
