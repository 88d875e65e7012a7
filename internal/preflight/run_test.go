package preflight

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis/dial"
)

// failingServer returns the address of a server that answers HELLO and closes the connection at any other
// command.
func failingServer(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // the test is over
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go answerHello(conn)
		}
	}()
	return listener.Addr().String()
}

func answerHello(conn net.Conn) {
	defer conn.Close() //nolint:errcheck // it ends the connection on purpose
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		switch word := strings.ToLower(lines.Text()); {
		case strings.HasPrefix(word, "*"), strings.HasPrefix(word, "$"), word == "2":
		case word == "hello":
			_, _ = conn.Write([]byte("*4\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$4\r\nrole\r\n$6\r\nmaster\r\n")) // or the client is gone
		default:
			return
		}
	}
}

func TestRun_unknown_permissions(t *testing.T) {
	options := Options{Client: dial.Options{Addresses: []string{failingServer(t)}, Timeout: time.Minute}}
	findings, unasked := Run(t.Context(), options)
	seen := map[string]string{}
	for _, f := range findings {
		seen[f.Check] = f.Result + " " + f.Detail
	}
	for _, check := range []string{"permissions", "admin rights", "overrides", "eviction"} {
		if !strings.HasPrefix(seen[check], "warning unknown: ") {
			t.Errorf("%s: got %q of %v", check, seen[check], findings)
		}
	}
	if !strings.HasPrefix(seen["reachable"], "ok") || !unasked {
		t.Errorf("got %v, unasked %v", findings, unasked)
	}
}

// TestAskHello_Redis60 asks a server that requires the protocol's version, as Redis 6.0 does.
func TestAskHello_Redis60(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // the test is over
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close() //nolint:errcheck // the test is over
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			switch lines.Text() {
			case "*1": // of HELLO alone
				_, _ = conn.Write([]byte("-ERR wrong number of arguments for 'hello' command\r\n")) // or it is not read
			case "*2":
				_, _ = conn.Write([]byte("*2\r\n$7\r\nversion\r\n$6\r\n6.0.16\r\n")) // or it is not read
			}
		}
	}()
	options := Options{Client: dial.Options{Addresses: []string{listener.Addr().String()}, Timeout: time.Minute}}
	client, err := dial.New(options.Client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() }) // the test is over
	if hello, err := askHello(t.Context(), client); err != nil || hello.version != "6.0.16" {
		t.Errorf("got %+v, %v; want version 6.0.16", hello, err)
	}
}
