package command

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/secretfile"
)

// helloReply is a server's reply to HELLO, which every user who can connect may send: among others server, version,
// mode and role.
type helloReply map[string]string

// askHello connects and sends HELLO. Redis before 6.0 does not have that command, and 6.0 requires +hello
// for it: such a server reports the same with INFO. The reply of one that reports neither, such as a proxy, is
// empty.
func askHello(ctx context.Context, client goredis.UniversalClient) (helloReply, error) {
	words, err := client.Do(ctx, "hello").Slice()
	if err != nil && strings.Contains(err.Error(), "wrong number of arguments") {
		words, err = client.Do(ctx, "hello", 2).Slice() // Redis 6.0 requires the protocol's version
	}
	if lacksHello(err) {
		return askInfo(ctx, client), nil
	}
	h := helloReply{}
	for i := 0; i+1 < len(words); i += 2 {
		h[fmt.Sprint(words[i])] = fmt.Sprint(words[i+1])
	}
	return h, err
}

// lacksHello reports whether a server does not have HELLO, or does not permit it. Connecting may lack other
// permissions.
func lacksHello(err error) bool {
	if err == nil {
		return false
	}
	refused := refusedCommand.FindStringSubmatch(err.Error())
	return len(refused) > 1 && refused[1] == "hello" || strings.Contains(strings.ToLower(err.Error()), "unknown command")
}

// askInfo returns what INFO reports of a HELLO; empty if the server does not permit it.
func askInfo(ctx context.Context, client goredis.UniversalClient) helloReply {
	h := helloReply{}
	for line := range strings.Lines(client.Info(ctx).Val()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		h[strings.TrimPrefix(name, "redis_")] = value // redis_version, redis_mode, role
	}
	if h["server_name"] == "valkey" { // whose redis_version is that of the Redis that it replaces
		h["server"], h["version"] = "valkey", h["valkey_version"]
	}
	return h
}

// greetingWait is how long a server has to say why it closes new connections.
const greetingWait = time.Second

// named returns the error of connecting to an address, or what the server says as it closes a connection on which
// nothing is sent: that it has maxclients, or by an alert of TLS 1.3 that it wants a certificate. The client of Redis
// takes the one for the answer to HELLO, and may not see the other: it reports the closed connection.
func (p *preflight) named(ctx context.Context, address string, err error) error {
	if err == nil || diagnose(err.Error()).advice != hangsUp {
		return err
	}
	conn, failed := p.connect(ctx, address)
	if failed != nil {
		return err
	}
	defer conn.Close()                                     //nolint:errcheck // nothing was sent
	_ = conn.SetReadDeadline(time.Now().Add(greetingWait)) // otherwise the context ends the check
	line, failed := bufio.NewReaderSize(conn, 512).ReadSlice('\n')
	if text, found := strings.CutPrefix(strings.TrimSpace(string(line)), "-"); found {
		return errors.New(text)
	}
	var alert *net.OpError
	if errors.As(failed, &alert) && alert.Op == "remote error" {
		return alert
	}
	return err
}

// connect connects to an address as the client of Redis does, and sends nothing.
func (p *preflight) connect(ctx context.Context, address string) (net.Conn, error) {
	network, config, load := "tcp", p.options.Client.TLS, p.options.Client.LoadTLS
	if strings.HasPrefix(address, "/") {
		network = "unix"
	}
	if load != nil {
		var err error
		if config, err = load(); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, dial.ConnectBudget)
	defer cancel()
	if config != nil {
		return (&tls.Dialer{Config: config}).DialContext(ctx, network, address)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// diagnosis is the meaning of an error of Redis or of the connection. If Redis has answered, it lacks
// something. Otherwise it could not be asked.
type diagnosis struct {
	words    string // in the error
	answered bool
	advice   string
}

// Advice that several errors share.
const (
	hangsUp = "see the log of Redis: it closes the connection; it may have maxclients connections, or the port may speak TLS only"
	holdsUp = "check whether a firewall or a stopped Redis delays connections, and whether Redis has tls as configured here"
)

var diagnoses = []diagnosis{
	{"credentials: ", false, "fix the credentials source; Redis was not asked"},
	{"WRONGPASS", true, "change username and password, or the user in Redis; of a source of credentials check settings, rights and " +
		"this machine's clock"},
	{"NOAUTH", true, "set username and password: this Redis requires them"},
	{"invalid password", true, "change the password"},
	{"AUTH", true, "change username and password"},
	{"DB index is out of range", true, "set db to a number that this Redis has"},
	{"cluster support disabled", true, "leave mode out: this Redis is no cluster"},
	{"DENIED", true, "give Redis a password, or bind it to a private address: it runs in protected mode"},
	{"max number of clients", true, "raise maxclients in Redis"},
	{"BUSY", false, "wait for the end of the script that Redis runs, or end it with SCRIPT KILL"},
	{"LOADING", false, "wait until Redis has loaded its data"},
	{"connection refused", false, "start Redis, or change the address: nothing listens there"},
	{"no such host", false, "change the address: its name does not resolve"},
	{"no such file", false, "start Redis, or change the path of its socket"},
	{"none of the pins", false, "find out what answers there, and compare its key with Redis's"},
	{"certificate has expired or is not yet valid", false, "renew Redis's certificate, or set this machine's clock"},
	{"expired certificate", false, "renew cert and key of tls: Redis does not take an expired certificate"},
	{"x509", false, "set ca and server_name of tls to those of Redis's certificate"},
	{"certificate", false, "set cert and key of tls to those that Redis trusts"},
	{"handshake failure", false, "set cert and key of tls if Redis wants a certificate of its clients; otherwise allow it the " +
		"ciphers of TLS 1.2 or 1.3"},
	{"protocol version", false, "let Redis speak TLS 1.2 or 1.3: tls-protocols in its configuration"},
	{"does not look like a TLS", false, "leave tls out, or use redis://: this port does not speak TLS"},
	{"connection reset", false, hangsUp},
	{"broken pipe", false, hangsUp},
	{"EOF", false, hangsUp},
	{"timeout", false, holdsUp},
	{"deadline exceeded", false, holdsUp},
}

// refusedCommand matches the command that a user may not run.
var refusedCommand = regexp.MustCompile(`NOPERM.* run the '([^']+)' command`)

// refused reports an error of connecting to Redis.
func (p *preflight) refused(err error) { p.refusedBy(err, p.grant, strings.NewReplacer()) }

// inSentinel makes advice about Redis one about a sentinel.
var inSentinel = strings.NewReplacer("username and password", "sentinel_username and sentinel_password",
	"the password", "sentinel_password",
	"this Redis", "this sentinel", "Redis's", "the sentinel's", "a Redis", "a sentinel", "Redis", "the sentinel")

// refusedBySentinel reports an error of connecting to a sentinel.
func (p *preflight) refusedBySentinel(err error) { p.refusedBy(err, p.grantInSentinel, inSentinel) }

func (p *preflight) refusedBy(err error, grant func(permissions string) string, words *strings.Replacer) {
	text := err.Error()
	if missing := refusedCommand.FindStringSubmatch(text); missing != nil {
		p.failed("permissions", "", "missing: +"+missing[1], grant("+"+missing[1]))
		return
	}
	if refusedDatabase(text) {
		p.failed("permissions", "", "missing: "+p.databaseRight(), grant(p.databaseRight()))
		return
	}
	t := diagnose(text)
	p.unasked = p.unasked || !t.answered
	advice := cmp.Or(t.advice, "check whether this is the address of a Redis")
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) && len(certificate.UnverifiedCertificates) > 0 {
		advice += "; to trust this key of Redis, set in tls: pin " + secretfile.PinOf(certificate.UnverifiedCertificates[0])
	}
	p.failed("reachable", "", text, words.Replace(advice))
}

// diagnose returns the diagnosis of an error; without advice for an unknown error.
func diagnose(text string) diagnosis {
	for _, t := range diagnoses {
		if strings.Contains(text, t.words) {
			return t
		}
	}
	return diagnosis{}
}

// refusedByAnnounced reports an error of connecting to an address that other servers announce, as sentinels that of
// the master. What the configuration names is right then.
func (p *preflight) refusedByAnnounced(err error, announced, who, settings string) {
	var network *net.OpError
	if !errors.As(err, &network) || network.Op != "dial" || announced == "" || slices.Contains(p.options.Client.Addresses, announced) {
		p.refused(err)
		return
	}
	p.unasked = true
	p.failed("reachable", "", err.Error(),
		who+" announces "+announced+": start Redis there, or have it announce an address that Caddy reaches, by "+settings)
}

// refusedDatabase reports whether an error says that the user of Valkey may not use the database.
func refusedDatabase(text string) bool {
	return strings.Contains(text, "NOPERM") && strings.Contains(text, "access database")
}

// grant returns the command that gives the user of Redis permissions.
func (p *preflight) grant(permissions string) string {
	text := "in Redis: ACL SETUSER " + cmp.Or(p.options.Client.Username, "default") + " " + permissions
	if strings.Contains(permissions, "db=") {
		text += "; name other databases that this user needs behind db= too, with commas"
	}
	return text
}

// grantInSentinel returns the command that gives the user of the sentinels permissions.
func (p *preflight) grantInSentinel(permissions string) string {
	return "in each sentinel: ACL SETUSER " + cmp.Or(p.options.Client.SentinelUsername, "default") + " " + permissions
}
