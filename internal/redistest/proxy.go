package redistest

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy stands between a client and a server, and can do what bad networks do.
type Proxy struct {
	Addr string // 127.0.0.1:port

	target string
	cut    atomic.Bool
	delay  atomic.Int64
	mu     sync.Mutex
	open   []net.Conn
}

// NewProxy starts a proxy in front of a server; the test's end stops it.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: listener.Addr().String(), target: target}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { p.serve(conn, &running) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.CutAll()
		running.Wait()
	})
	return p
}

// CutNextReply closes the connection that the next reply comes from, and drops the reply.
func (p *Proxy) CutNextReply() { p.cut.Store(true) }

// Delay holds everything that passes, in either direction, for half of a round trip.
func (p *Proxy) Delay(roundTrip time.Duration) { p.delay.Store(int64(roundTrip / 2)) }

// CutAll closes all connections.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.open {
		_ = conn.Close() // closed already: fine
	}
	p.open = nil
}

func (p *Proxy) keep(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = append(p.open, conns...)
}

func (p *Proxy) serve(client net.Conn, running *sync.WaitGroup) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close() // the client sees the server's refusal as an end
		return
	}
	p.keep(client, server)
	running.Go(func() { p.pass(server, client, nil, running) })
	p.pass(client, server, &p.cut, running)
}

// chunk is bytes and when they may go on.
type chunk struct {
	data []byte
	due  time.Time
}

// pass copies what from sends to to, each chunk after its delay; the delay does not limit how much
// is under way. Where the flag is set, the next chunk ends the connection instead.
func (p *Proxy) pass(to, from net.Conn, cut *atomic.Bool, running *sync.WaitGroup) {
	queue := make(chan chunk, 4096)
	running.Go(func() {
		for c := range queue {
			if wait := time.Until(c.due); wait > 0 {
				<-time.After(wait)
			}
			if _, err := to.Write(c.data); err != nil {
				_ = from.Close() // ends the reading loop
			}
		}
		_ = to.Close() // the end is passed on
	})
	defer close(queue)
	buffer := make([]byte, 64*1024)
	for {
		n, err := from.Read(buffer)
		if n > 0 && cut != nil && cut.CompareAndSwap(true, false) {
			_ = from.Close() // the reply is lost, and with it the connection
			return
		}
		if n > 0 {
			queue <- chunk{append([]byte(nil), buffer[:n]...), time.Now().Add(time.Duration(p.delay.Load()))}
		}
		if err != nil {
			return
		}
	}
}
