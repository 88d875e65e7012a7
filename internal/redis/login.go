package redis

import (
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/wire"
)

// loginReplies are the replies to AUTH of a Redis that refuses it. No other command gets them.
var loginReplies = []string{"WRONGPASS ", "ERR invalid password", "ERR AUTH ", "ERR Client sent AUTH"}

// loginAlerts are the alerts of TLS by which a server refuses a client, as Go words them. A proxy may send
// any other after it has passed on a command, which Redis may have run.
var loginAlerts = []string{"certificate", "handshake failure", "access denied", "protocol version", "insufficient security"}

// sentinelsRefuse begins the client's error about sentinels of which none has answered.
const sentinelsRefuse = "redis: all sentinels "

// RefusedLogin reports whether an error says that a new connection was not let in: Redis or the
// sentinels refuse the password, no sentinel listens, one side refuses the other's certificate, or a
// file cannot be read. Nothing has run then, and open connections may go on. NOAUTH and NOPERM of an
// open connection are not of these: its user has lost a permission.
func RefusedLogin(err error) bool {
	var (
		own         *wire.CredentialsError
		certificate *tls.CertificateVerificationError
		alert       *net.OpError
		reply       goredis.Error
		wrapped     *limiter.UndecidedError
	)
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	switch {
	case err == nil:
		return false
	case errors.As(err, &own), errors.As(err, &certificate):
		return true
	case errors.As(err, &alert) && alert.Op == "remote error":
		return slices.ContainsFunc(loginAlerts, func(words string) bool { return strings.Contains(alert.Err.Error(), words) })
	}
	text := err.Error()
	if strings.HasPrefix(text, sentinelsRefuse) {
		kind := wire.KindOf(err)
		return kind == "auth" || kind == "refused"
	}
	return errors.As(err, &reply) && slices.ContainsFunc(loginReplies, func(words string) bool { return strings.HasPrefix(text, words) })
}
