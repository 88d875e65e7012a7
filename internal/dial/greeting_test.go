package dial

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// refusing listens, and says a line to each connection before it closes it, as Redis does.
func refusing(t *testing.T, line string) (address string) {
	t.Helper()
	listener := assert.NoError(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			_, _ = conn.Write([]byte(line)) // the client may be gone
			_ = conn.Close()
		}
	}()
	return listener.Addr().String()
}

// TestNew_refused has a server say why it closes the connection.
func TestNew_refused(t *testing.T) {
	t.Parallel()
	for says, advice := range map[string]string{
		"DENIED Redis is running in protected mode because no password is set. In this mode more text follows": "protected mode",
		"ERR max number of clients reached": "maxclients",
	} {
		client := assert.NoError(New(Connection{Addresses: []string{refusing(t, "-"+says+"\r\n")}}))(t)
		err := Ping(t.Context(), client)
		_ = client.Close()
		var refused *RefusedError
		assert.FatalIf(t, !errors.As(err, &refused), "%s: got %v", says, err)
		sentence, _, _ := strings.Cut(says, ". ")
		assert.ErrorIf(t, refused.Says != sentence || !strings.Contains(refused.Advice, advice), "%s: got %+v", says, refused)
	}
}
