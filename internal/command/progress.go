package command

import (
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

const (
	// progressStep is how often progress is shown. What takes less shows nothing.
	progressStep = time.Second

	// progressWidth is how many columns of a terminal progress takes: a line that wraps cannot be written again.
	progressWidth = 78
)

// terminalOf returns the terminal that a command may write progress to; nil if its stderr is none, such as a pipe or a file.
func terminalOf(stderr io.Writer) io.Writer {
	file, isFile := stderr.(*os.File)
	if !isFile || os.Getenv("TERM") == "dumb" {
		return nil
	}
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	return file
}

// shows begins to show what the command is doing, as a function says it, which is called on another goroutine; and for how
// long already. Until the returned function is called that is one line of the terminal, which is written again and again. Then
// nothing of the line is left.
func (i *invocation) shows(doing func() string) (end func()) {
	if i.progress == nil {
		return func() {}
	}
	ticker := time.NewTicker(progressStep)
	erase := showProgress(i.progress, ticker.C, doing)
	return func() {
		ticker.Stop()
		erase()
	}
}

// showProgress shows at each tick what a function says, behind the time since the begin.
func showProgress(out io.Writer, ticks <-chan time.Time, doing func() string) (end func()) {
	began, stop, stopped := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		shown := 0
		replace := func(text string) {
			columns := utf8.RuneCountInString(text)
			_, _ = io.WriteString(out, "\r"+text+strings.Repeat(" ", max(0, shown-columns))) // who sees no progress misses nothing
			shown = columns
		}
		for {
			select {
			case now := <-ticks:
				replace(display.EscapeShort(display.Compact(now.Sub(began).Round(time.Second))+"  "+doing(), progressWidth))
			case <-stop:
				if shown > 0 {
					replace("") // over what stands there, behind which the cursor is then
					replace("")
				}
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}
