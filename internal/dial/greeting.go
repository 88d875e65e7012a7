package dial

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// This file has what a server says as it closes a new connection. The client of Redis takes that for the answer to its first
// command, goes on, and reports the connection that is closed by then.

// RefusedError is the reason why a server takes no connection.
type RefusedError struct {
	// Says is what the server says, in a sentence.
	Says string

	// Advice is what to do about it.
	Advice string
}

// Error implements error.
func (e *RefusedError) Error() string { return e.Says }

// greetings are how servers refuse a connection, and what to do about it.
var greetings = []struct{ begins, advice string }{
	{"-DENIED ", "give Redis a password, or bind it to a private address: it runs in protected mode"},
	{"-ERR max number of clients", "raise maxclients in Redis"},
}

// refusalIn returns the refusal that a server begins with, otherwise nil.
func refusalIn(begin []byte) error {
	for _, g := range greetings {
		if line, found := bytes.CutPrefix(begin, []byte(g.begins)); found {
			line, _, _ = bytes.Cut(append([]byte(g.begins[1:]), line...), []byte("\r\n"))
			says, _, _ := strings.Cut(string(line), ". ") // protected mode is explained at length
			return &RefusedError{Says: says, Advice: g.advice}
		}
	}
	return nil
}

// greeted is a socket of which is looked at what the server says first. It reads from a [greeting], and from itself once that is
// over: one goroutine reads at a time. It is no TLS: the pool looks at the socket before it gives it out.
type greeted struct {
	io.Reader
	unread
	syscall.Conn
}

// unread is what a connection does besides reading.
type unread interface {
	io.WriteCloser
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
	SetDeadline(at time.Time) error
	SetReadDeadline(at time.Time) error
	SetWriteDeadline(at time.Time) error
}

// greeting reads what the server says first.
type greeting struct {
	socket net.Conn
	reader *io.Reader // of the greeted socket
}

// Read returns the refusal that a server begins with as an error.
func (g greeting) Read(p []byte) (int, error) {
	n, err := g.socket.Read(p)
	if n > 0 {
		*g.reader = g.socket
		if refusal := refusalIn(p[:n]); refusal != nil {
			return 0, refusal
		}
	}
	return n, err
}

// dialHook is the part of hooks for new connections that is about commands, which pass it unseen.
type dialHook struct{}

// ProcessHook implements goredis.Hook.
func (dialHook) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook { return next }

// ProcessPipelineHook implements goredis.Hook.
func (dialHook) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

// greetingHook makes the connections of a client look at what the server says first.
type greetingHook struct{ dialHook }

// DialHook implements goredis.Hook.
func (greetingHook) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if socket, ok := conn.(syscall.Conn); ok {
			looked := &greeted{unread: conn, Conn: socket}
			looked.Reader = greeting{conn, &looked.Reader}
			return looked, nil
		}
		return conn, nil
	}
}

// Interface guards
var _ goredis.Hook = greetingHook{}
