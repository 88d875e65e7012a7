package redistest

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// Name is a host's name whose address the test changes. Only this process resolves it.
type Name struct {
	Host string

	address atomic.Value // of netip.Addr
}

// names are those of this process, by their fully qualified form.
var names sync.Map

// NewName returns a name that leads to an address. The test's end forgets it. [ResolveNames] comes first.
func NewName(t testing.TB, address string) *Name {
	t.Helper()
	n := &Name{Host: strings.ToLower(strings.Map(letterOrHyphen, t.Name())) + ".redis.test"}
	n.Lead(t, address)
	names.Store(n.Host+".", n)
	t.Cleanup(func() { names.Delete(n.Host + ".") })
	return n
}

func letterOrHyphen(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
		return r
	}
	return -1
}

// Lead has the name lead to another address from now on.
func (n *Name) Lead(t testing.TB, address string) {
	t.Helper()
	parsed, err := netip.ParseAddr(address)
	assert.Must(t, err)
	n.address.Store(parsed)
}

// ResolveNames has this process ask a server of its own for names. The TestMain of a package calls it before any test
// resolves a name.
func ResolveNames() error {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go answerNames(server) // as long as this process lives
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
	return nil
}

// answerNames answers questions for IPv4 addresses of names; all other answers are empty.
func answerNames(server net.PacketConn) {
	buffer := make([]byte, 1500)
	for {
		size, from, err := server.ReadFrom(buffer)
		if err != nil {
			return
		}
		var message dnsmessage.Message
		if message.Unpack(buffer[:size]) != nil || len(message.Questions) == 0 {
			continue
		}
		question := message.Questions[0]
		answer := dnsmessage.Message{Header: dnsmessage.Header{ID: message.ID, Response: true, Authoritative: true},
			Questions: message.Questions[:1]}
		if known, found := names.Load(strings.ToLower(question.Name.String())); found && question.Type == dnsmessage.TypeA {
			address := known.(*Name).address.Load().(netip.Addr) //nolint:forcetypeassert,errcheck // nothing else is stored
			answer.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET},
				Body:   &dnsmessage.AResource{A: address.As4()},
			}}
		}
		if packed, err := answer.Pack(); err == nil {
			_, _ = server.WriteTo(packed, from) // a lost answer is asked for again
		}
	}
}
