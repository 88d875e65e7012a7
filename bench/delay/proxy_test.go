package delay

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// echo sends every line back.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	redistest.Must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	return listener.Addr().String()
}

func dial(t *testing.T, options Options) (*Proxy, net.Conn) {
	t.Helper()
	p, err := Start(t.Context(), echo(t), options)
	redistest.Must(t, err)
	t.Cleanup(p.Close)
	conn, err := net.Dial("tcp", p.Addr())
	redistest.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return p, conn
}

func TestProxy_delay(t *testing.T) {
	const delay, lines = 30 * time.Millisecond, 200
	_, conn := dial(t, Options{Delay: delay})
	start := time.Now()
	go func() {
		for range lines {
			_, _ = conn.Write([]byte("a line\n"))
			time.Sleep(100 * time.Microsecond) //nolint:forbidigo // separates the replies by any time
		}
	}()
	reader := bufio.NewReader(conn)
	for i := range lines {
		_, err := reader.ReadString('\n')
		redistest.FatalIf(t, err != nil, "%v", err)
		took := time.Since(start)
		redistest.ErrorIf(t, i == 0 && took < delay, "the first reply came after %v, want at least %v", took, delay)
	}
	if took := time.Since(start); took > 20*delay {
		t.Errorf("%d replies took %v: the delay limits throughput", lines, took)
	}
}

func TestProxy_slowFraction(t *testing.T) {
	p, conn := dial(t, Options{SlowFraction: 1, SlowDelay: 10 * time.Millisecond})
	start := time.Now()
	if _, err := io.Copy(conn, strings.NewReader("slow")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	redistest.ErrorIf(t, took < 10*time.Millisecond, "the reply came after %v", took)
	all, slow := p.Counts()
	redistest.ErrorIf(t, all != 4 || slow != 4, "counted %d bytes, %d of them slow; want 4 and 4", all, slow)
}
