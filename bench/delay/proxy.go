// Package delay is a TCP proxy that makes answers late without making them fewer: what a longer
// link does to a client, on one machine.
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

// Options says how late answers are. The zero value delays nothing.
type Options struct {
	// Delay is what every answer is late by.
	Delay time.Duration

	// SlowShare is the part of the answers, from 0 to 1, that SlowDelay is added to. An answer is
	// what the server sends at once.
	SlowShare float64
	SlowDelay time.Duration
}

// Proxy passes on what comes for one server.
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

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Counts returns the bytes of all answers and of those among them that were slow.
func (p *Proxy) Counts() (all, slow int64) { return p.bytes.Load(), p.slow.Load() }

// Close ends the proxy and all its connections.
func (p *Proxy) Close() {
	_ = p.listener.Close() // closed already: fine
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for conn := range p.conns {
		_ = conn.Close() // closed already: fine
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

// serve passes requests on as they come and answers when they are due.
func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close() // that is the answer
		return
	}
	if !p.keep(client, server) {
		return
	}
	defer p.drop(client, server)
	go func() {
		_, _ = io.Copy(server, client) // ends when either side closes
		_ = server.Close()             // so that the answers end too
	}()
	p.passAnswers(client, server)
}

// keep remembers connections until they are dropped.
func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		if p.closed {
			_ = conn.Close() // nobody listens any more
		}
		p.conns[conn] = true
	}
	return !p.closed
}

func (p *Proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close() // closed already: fine
		delete(p.conns, conn)
	}
}

// answer is what was read at once, and when it is to be passed on.
type answer struct {
	buffer *[chunkSize]byte
	size   int
	due    time.Time
}

const (
	chunkSize  = 64 << 10
	maxPending = 1024 // answers on their way on one connection
)

var buffers = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// passAnswers reads on while earlier answers wait, so that the delay costs no throughput.
func (p *Proxy) passAnswers(client, server net.Conn) {
	pending := make(chan answer, maxPending)
	go func() {
		defer close(pending)
		for {
			buffer := buffers.Get().(*[chunkSize]byte) //nolint:forcetypeassert,errcheck // the pool holds nothing else
			n, err := server.Read(buffer[:])
			if n > 0 {
				pending <- answer{buffer, n, time.Now().Add(p.lateness(n))}
			}
			if err != nil {
				return
			}
		}
	}()
	var err error
	for a := range pending {
		if err == nil { // after an error only drain, until the reader has seen it too
			time.Sleep(time.Until(a.due))
			if _, err = client.Write(a.buffer[:a.size]); err != nil {
				_ = server.Close() // ends the reader
			}
		}
		buffers.Put(a.buffer)
	}
}

// lateness decides how late an answer of that many bytes is.
func (p *Proxy) lateness(size int) time.Duration {
	p.bytes.Add(int64(size))
	if p.options.SlowShare > 0 && rand.Float64() < p.options.SlowShare {
		p.slow.Add(int64(size))
		return p.options.Delay + p.options.SlowDelay
	}
	return p.options.Delay
}
