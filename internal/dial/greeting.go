package dial

import (
	"bytes"
	"context"
	"net"
	"strings"
	"syscall"

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

// greeted is a connection that looks at what the server says first.
type greeted struct {
	net.Conn

	answered bool
}

// Read returns the refusal that a server begins with as an error.
func (c *greeted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.answered && n > 0 {
		c.answered = true
		if refusal := refusalIn(p[:n]); refusal != nil {
			return 0, refusal
		}
	}
	return n, err
}

// greetedSocket is one that is no TLS: the pool looks at its socket before it gives it out.
type greetedSocket struct {
	*greeted
	syscall.Conn
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
			return greetedSocket{&greeted{Conn: conn}, socket}, nil
		}
		return conn, nil
	}
}

// Interface guards
var _ goredis.Hook = greetingHook{}
