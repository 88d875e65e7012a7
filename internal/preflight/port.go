package preflight

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// portTimeout is how long to wait for an answer of a port.
const portTimeout = time.Second

// The errors of a port that answers, but not as configured.
var (
	errSpeaksPlain = errors.New("it answers without TLS only")
	errSpeaksTLS   = errors.New("it answers with TLS only")
)

// explained returns the error of connecting to an address, or a more specific one. The client's error does
// not say why a server closes a connection or stays silent.
func explained(ctx context.Context, o limiter.ClientOptions, err error) error {
	var reply redis.Error
	if errors.As(err, &reply) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 4*portTimeout)
	defer cancel()
	banner := readBanner(ctx, o.Addresses[0])
	switch {
	case o.TLS != nil && banner != "":
		return fmt.Errorf("%w (%w)", errSpeaksPlain, err)
	case strings.HasPrefix(banner, "-ERR max number of clients"), strings.HasPrefix(banner, "-DENIED"):
		return errors.New(banner[1:])
	case o.TLS == nil && banner == "" && speaksTLS(ctx, o.Addresses[0]):
		return fmt.Errorf("%w (%w)", errSpeaksTLS, err)
	}
	return err
}

// readBanner returns the line that a Redis without TLS sends by itself, as it does when it refuses a
// connection, or its reply to a PING. It is empty if nothing arrives, or something else.
func readBanner(ctx context.Context, address string) string {
	conn, err := dial(ctx, address)
	if err != nil {
		return ""
	}
	defer conn.Close()                                        //nolint:errcheck // nothing else is read
	reader := bufio.NewReader(io.LimitReader(conn, 1000))     // the port may belong to any program
	_ = conn.SetReadDeadline(time.Now().Add(portTimeout / 4)) // if it fails, so does the read
	line, _ := reader.ReadString('\n')
	if line == "" {
		_ = conn.SetReadDeadline(time.Now().Add(portTimeout))
		if _, err := conn.Write([]byte("PING\r\n")); err != nil {
			return ""
		}
		line, _ = reader.ReadString('\n')
	}
	if !strings.HasPrefix(line, "+PONG") && !strings.HasPrefix(line, "-") {
		return ""
	}
	return strings.TrimSpace(line)
}

// speaksTLS reports whether a port answers a TLS handshake, if only by a TLS alert.
func speaksTLS(ctx context.Context, address string) bool {
	conn, err := dial(ctx, address)
	if err != nil {
		return false
	}
	defer conn.Close() //nolint:errcheck // nothing else is read
	_ = conn.SetDeadline(time.Now().Add(portTimeout))
	var refusal *net.OpError
	err = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx) //nolint:gosec // nothing is sent
	return err == nil || (errors.As(err, &refusal) && refusal.Op == "remote error")
}

// dial connects to host:port, or to a socket by its path.
func dial(ctx context.Context, address string) (net.Conn, error) {
	network := "tcp"
	if strings.HasPrefix(address, "/") {
		network = "unix"
	}
	dialer := &net.Dialer{Timeout: portTimeout}
	return dialer.DialContext(ctx, network, address)
}
