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

// portPatience is how long a port has to say something.
const portPatience = time.Second

// The errors of a port that speaks, but not as configured.
var (
	errSpeaksPlain = errors.New("it answers without TLS, and not with it")
	errSpeaksTLS   = errors.New("it answers with TLS, and not without")
)

// explained is the error of connecting to an address, or a more telling one: the error that the client
// meets where a server hangs up or waits does not say why.
func explained(ctx context.Context, o limiter.ClientOptions, err error) error {
	var reply redis.Error
	if errors.As(err, &reply) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 4*portPatience)
	defer cancel()
	said := readBanner(ctx, o.Addresses[0])
	switch {
	case o.TLS != nil && said != "":
		return fmt.Errorf("%w (%w)", errSpeaksPlain, err)
	case strings.HasPrefix(said, "-ERR max number of clients"), strings.HasPrefix(said, "-DENIED"):
		return errors.New(said[1:])
	case o.TLS == nil && said == "" && speaksTLS(ctx, o.Addresses[0]):
		return fmt.Errorf("%w (%w)", errSpeaksTLS, err)
	}
	return err
}

// readBanner is the line that a Redis without TLS says by itself, as it does to those whom it turns away, or in
// answer to a PING; empty where nothing is heard, or nothing of Redis's.
func readBanner(ctx context.Context, address string) string {
	conn, err := dial(ctx, address)
	if err != nil {
		return ""
	}
	defer conn.Close()                                         //nolint:errcheck // all was asked
	reader := bufio.NewReader(io.LimitReader(conn, 1000))      // of whoever listens there
	_ = conn.SetReadDeadline(time.Now().Add(portPatience / 4)) // where it fails the read does
	line, _ := reader.ReadString('\n')
	if line == "" {
		_ = conn.SetReadDeadline(time.Now().Add(portPatience))
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

// speaksTLS tells whether a port shakes hands with TLS, or refuses that by TLS's own words.
func speaksTLS(ctx context.Context, address string) bool {
	conn, err := dial(ctx, address)
	if err != nil {
		return false
	}
	defer conn.Close() //nolint:errcheck // all was asked
	_ = conn.SetDeadline(time.Now().Add(portPatience))
	var refusal *net.OpError
	err = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx) //nolint:gosec // nothing is told
	return err == nil || (errors.As(err, &refusal) && refusal.Op == "remote error")
}

// dial connects to host:port, or to a socket by its path.
func dial(ctx context.Context, address string) (net.Conn, error) {
	network := "tcp"
	if strings.HasPrefix(address, "/") {
		network = "unix"
	}
	dialer := &net.Dialer{Timeout: portPatience}
	return dialer.DialContext(ctx, network, address)
}
