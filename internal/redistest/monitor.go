package redistest

import (
	"bufio"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// Command is one that a server has run.
type Command struct {
	At     time.Duration // since the Unix epoch, by the server's clock
	Script bool          // a script has called it
	Words  []string      // its name and its arguments
}

// Monitor calls a function with each command that the server runs, one after the other, until the test ends.
func (s *Server) Monitor(t testing.TB, see func(c Command)) {
	t.Helper()
	conn := assert.NoError(net.Dial("tcp", s.Addr))(t)
	t.Cleanup(func() { _ = conn.Close() })
	_, err := conn.Write([]byte("MONITOR\r\n"))
	assert.Must(t, err)
	lines := bufio.NewReaderSize(conn, 1<<20)
	_, err = lines.ReadString('\n') // +OK
	assert.Must(t, err)
	go func() {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return // the test ends
			}
			see(parseCommand(line))
		}
	}()
}

// parseCommand reads a line such as `+1700000000.123456 [0 127.0.0.1:51234] "GET" "k"`.
func parseCommand(line string) (c Command) {
	stamp, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "+"), " [")
	seconds, micros, _ := strings.Cut(stamp, ".")
	s, _ := strconv.ParseInt(seconds, 10, 64)
	us, _ := strconv.ParseInt(micros, 10, 64)
	c.At = time.Duration(s)*time.Second + time.Duration(us)*time.Microsecond
	from, words, _ := strings.Cut(rest, "] ")
	c.Script = strings.HasSuffix(from, " lua")
	for words != "" {
		quoted, err := strconv.QuotedPrefix(words)
		if err != nil {
			break
		}
		word, _ := strconv.Unquote(quoted) // it is quoted
		c.Words = append(c.Words, word)
		words = strings.TrimPrefix(words[len(quoted):], " ")
	}
	return c
}
