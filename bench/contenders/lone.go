package contenders

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"
)

// lone runs one script per request, on a connection that nothing else uses: without a pool, deadlines, or a look at whether
// the connection still lives. No limiter of use can be without these. It is the price of the question and its answer alone.
type lone struct {
	mu      sync.Mutex
	conn    net.Conn
	replies *bufio.Reader
	message []byte
	head    []byte // of each message, before the key
	tail    []byte // after it
}

// newLone connects to Redis and loads the script.
func newLone(address string) (*lone, error) {
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", address)
	if err != nil {
		return nil, err
	}
	l := &lone{conn: conn, replies: bufio.NewReader(conn)}
	l.message = appendBulk([]byte("*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n"), counterText)
	if err := l.send(); err != nil {
		return nil, err
	}
	if _, err := l.line('$'); err != nil {
		return nil, err
	}
	l.head = []byte("*6\r\n$7\r\nEVALSHA\r\n")
	l.head = append(appendBulk(l.head, counter.Hash()), "$1\r\n1\r\n"...)
	l.tail = appendBulk(appendBulk(nil, strconv.Itoa(Limit)), strconv.FormatInt(Window.Microseconds(), 10))
	_, err = l.replies.ReadString('\n') // the hash
	return l, err
}

func appendBulk(message []byte, text string) []byte {
	message = strconv.AppendInt(append(message, '$'), int64(len(text)), 10)
	return append(append(append(message, "\r\n"...), text...), "\r\n"...)
}

func (l *lone) send() error {
	_, err := l.conn.Write(l.message)
	return err
}

// line reads a line of a reply, of a kind, as a number.
func (l *lone) line(kind byte) (int64, error) {
	line, err := l.replies.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 3 || line[0] != kind {
		return 0, fmt.Errorf("redis answers %q, want %q", line, kind)
	}
	return strconv.ParseInt(string(line[1:len(line)-2]), 10, 64)
}

func (l *lone) take(_ context.Context, key string) (answer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.message = append(appendBulk(append(l.message[:0], l.head...), "plain:{"+key+"}"), l.tail...)
	if err := l.send(); err != nil {
		return answer{}, err
	}
	if n, err := l.line('*'); err != nil {
		return answer{}, err
	} else if n != 3 {
		return answer{}, fmt.Errorf("the script returned %d values", n)
	}
	var numbers [3]int64
	for i := range numbers {
		var err error
		if numbers[i], err = l.line(':'); err != nil {
			return answer{}, err
		}
	}
	return answer{numbers[0] == 1, numbers[1], time.Duration(numbers[2]) * time.Microsecond}, nil
}

// Close implements [io.Closer].
func (l *lone) Close() error { return l.conn.Close() }
