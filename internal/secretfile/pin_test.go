package secretfile

import (
	"crypto/tls"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// ping connects by TLS, and reads the answer to a PING and with it the server's tickets.
func ping(t *testing.T, address string, config *tls.Config) (resumed bool, err error) {
	t.Helper()
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		return false, err
	}
	defer conn.Close() //nolint:errcheck // the answer is read
	_, err = io.WriteString(conn, "PING\r\n")
	assert.Must(t, err)
	answer := make([]byte, len("+PONG\r\n"))
	_, err = io.ReadFull(conn, answer)
	assert.ErrorIf(t, err != nil || string(answer) != "+PONG\r\n", "got %q, %v", answer, err)
	return conn.ConnectionState().DidResume, nil
}

// TestFiles_Load_pin_resumption resumes a session of a server whose key is no longer pinned: the pin is compared then
// too.
func TestFiles_Load_pin_resumption(t *testing.T) {
	authority := redistest.NewAuthority(t)
	cert, key := authority.Issue(t, "redis.test")
	address := redistest.FreeAddr(t)
	redistest.Start(t, authority.Arguments(address[strings.LastIndexByte(address, ':')+1:], cert, key)...)
	_, other := authority.Issue(t, "other.test")
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		sessions := tls.NewLRUClientSessionCache(1)
		load := func(key string) *tls.Config {
			config := assert.NoError(TLS{Pins: []string{redistest.PinOf(t, key)}}.Load())(t)
			config.ClientSessionCache, config.MaxVersion = sessions, version
			return config
		}
		for _, want := range []bool{false, true} {
			resumed, err := ping(t, address, load(key))
			assert.ErrorIf(t, err != nil || resumed != want, "%x: resumed %v, want %v; %v", version, resumed, want, err)
		}
		_, err := ping(t, address, load(other))
		var refused *tls.CertificateVerificationError
		assert.ErrorIf(t, !errors.As(err, &refused) || !errors.Is(refused.Err, errNoPin), "%x: got %v; want %v", version, err, errNoPin)
	}
}
