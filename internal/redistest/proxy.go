package redistest

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// Proxy stands between a client and a server, and can fail like a bad network.
type Proxy struct {
	Addr string // 127.0.0.1:port

	target atomic.Pointer[string]
	cut    atomic.Bool
	apart  atomic.Bool
	delay  atomic.Int64
	pings  atomic.Int64 // their delay besides
	logins atomic.Int64 // the delay of the commands that begin a connection
	mu     sync.Mutex
	open   []net.Conn
}

// NewProxy starts a proxy in front of a server; the test's end stops it.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	assert.Must(t, err)
	p := &Proxy{Addr: listener.Addr().String()}
	p.Lead(target)
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

// CutNextReply drops the reply to the next run of a script and closes its connection. Other commands, which
// processes send by themselves, pass.
func (p *Proxy) CutNextReply() { p.cut.Store(true) }

// Delay delays all data, in either direction, by half of a round trip.
func (p *Proxy) Delay(roundTrip time.Duration) { p.delay.Store(int64(roundTrip / 2)) }

// Lead has new connections lead to another server. Those that are open stay where they are.
func (p *Proxy) Lead(target string) { p.target.Store(&target) }

// DelayLogins delays the commands by which new connections begin.
func (p *Proxy) DelayLogins(by time.Duration) { p.logins.Store(int64(by)) }

// DelayPings delays commands that name PING, and no others.
func (p *Proxy) DelayPings(roundTrip time.Duration) { p.pings.Store(int64(roundTrip)) }

// Part closes all connections and new ones at once, as a network does that has lost the server, until Join.
func (p *Proxy) Part() {
	p.apart.Store(true)
	p.CutAll()
}

// Join ends what Part began.
func (p *Proxy) Join() { p.apart.Store(false) }

// Clients returns how many connections are open to their clients, which learn of an end later than the proxy.
func (p *Proxy) Clients(t testing.TB) (count int) {
	t.Helper()
	for s := range Sockets(t) {
		if s.Peer == PortOf(p.Addr) && s.State == "01" {
			count++
		}
	}
	return count
}

// CutAll closes all connections.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.open {
		_ = conn.Close() // it may be closed already
	}
	p.open = nil
}

func (p *Proxy) keep(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = append(p.open, conns...)
}

func (p *Proxy) serve(client net.Conn, running *sync.WaitGroup) {
	server, err := net.Dial("tcp", *p.target.Load())
	if err == nil && p.apart.Load() {
		_ = server.Close()
		err = net.ErrClosed
	}
	if err != nil {
		_ = client.Close() // the client sees the refusal as a closed connection
		return
	}
	p.keep(client, server)
	var runs atomic.Bool // the script whose reply is to be dropped
	asked := func(data []byte) (drop bool) {
		runs.CompareAndSwap(false, bytes.Contains(data, []byte("evalsha")) && p.cut.CompareAndSwap(true, false))
		return false
	}
	replied := func([]byte) (drop bool) { return runs.Load() }
	running.Go(func() { p.pass(server, client, asked, running) })
	p.pass(client, server, replied, running)
}

// chunk is data and the time to send it.
type chunk struct {
	data []byte
	due  time.Time
}

// pass copies data between connections, each chunk after its delay. The delay does not limit how much is in
// flight. A chunk that is to be dropped ends the connection.
func (p *Proxy) pass(to, from net.Conn, drop func(data []byte) bool, running *sync.WaitGroup) {
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
		_ = to.Close() // passes the end on
	})
	defer close(queue)
	buffer := make([]byte, 64*1024)
	for {
		n, err := from.Read(buffer)
		if n > 0 && drop(buffer[:n]) {
			_ = from.Close() // the reply and the connection are lost
			return
		}
		if n > 0 {
			delay := p.delay.Load()
			if bytes.Contains(buffer[:n], []byte("ping")) {
				delay += p.pings.Load()
			}
			if bytes.Contains(buffer[:n], []byte("hello")) {
				delay += p.logins.Load()
			}
			queue <- chunk{append([]byte(nil), buffer[:n]...), time.Now().Add(time.Duration(delay))}
		}
		if err != nil {
			return
		}
	}
}
