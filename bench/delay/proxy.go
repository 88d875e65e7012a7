// Package delay is a TCP proxy that delays replies without a loss of throughput, as a longer link does.
package delay

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Options sets the delays. The zero value delays nothing.
type Options struct {
	// Delay is added to every reply.
	Delay time.Duration

	// SlowFraction is the fraction of replies, from 0 to 1, that get SlowDelay too. A reply is what
	// the server sends at once.
	SlowFraction float64
	SlowDelay    time.Duration
}

// Proxy forwards connections to one server.
type Proxy struct {
	options  Options
	target   string
	listener net.Listener
	bytes    atomic.Int64
	slow     atomic.Int64 // bytes that were delayed by SlowDelay

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
}

// Start listens on a free loopback port for connections to the target.
func Start(ctx context.Context, target string, options Options) (*Proxy, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{options: options, target: target, listener: listener, conns: map[net.Conn]bool{}}
	go p.accept()
	return p, nil
}

// Addr returns the address on which the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Counts returns the bytes of all replies and of the slow ones.
func (p *Proxy) Counts() (all, slow int64) { return p.bytes.Load(), p.slow.Load() }

// Close ends the proxy and all its connections.
func (p *Proxy) Close() {
	_ = p.listener.Close() // it may be closed already
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for conn := range p.conns {
		_ = conn.Close() // it may be closed already
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.serve(client)
	}
}

// serve forwards requests at once and replies when they are due.
func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close() // the client sees it closed
		return
	}
	if !p.keep(client, server) {
		return
	}
	defer p.drop(client, server)
	go func() {
		_, _ = io.Copy(server, client) // ends when either side closes
		_ = server.Close()             // ends the replies too
	}()
	p.passReplies(client, server)
}

// keep stores connections until they are dropped.
func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		if p.closed {
			_ = conn.Close() // the proxy is closed
		}
		p.conns[conn] = true
	}
	return !p.closed
}

func (p *Proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close() // it may be closed already
		delete(p.conns, conn)
	}
}

// reply holds the bytes of one read, with the time when they are due.
type reply struct {
	buffer *[chunkSize]byte
	size   int
	due    time.Time
}

const (
	chunkSize  = 64 << 10
	maxPending = 1024 // replies in flight on one connection
)

var buffers = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// passReplies reads while earlier replies wait, so that the delay costs no throughput.
func (p *Proxy) passReplies(client, server net.Conn) {
	pending := make(chan reply, maxPending)
	go func() {
		defer close(pending)
		for {
			buffer := buffers.Get().(*[chunkSize]byte) //nolint:forcetypeassert,errcheck // the pool holds nothing else
			n, err := server.Read(buffer[:])
			if n > 0 {
				pending <- reply{buffer, n, time.Now().Add(p.lateness(n))}
			}
			if err != nil {
				return
			}
		}
	}()
	var err error
	for a := range pending {
		if err == nil { // after an error only drain the channel, until the reader has ended
			time.Sleep(time.Until(a.due))
			if _, err = client.Write(a.buffer[:a.size]); err != nil {
				_ = server.Close() // ends the reader
			}
		}
		buffers.Put(a.buffer)
	}
}

// lateness returns the delay of a reply of that many bytes.
func (p *Proxy) lateness(size int) time.Duration {
	p.bytes.Add(int64(size))
	if p.options.SlowFraction > 0 && rand.Float64() < p.options.SlowFraction {
		p.slow.Add(int64(size))
		return p.options.Delay + p.options.SlowDelay
	}
	return p.options.Delay
}
