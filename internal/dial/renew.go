package dial

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
)

// This file replaces the connections of a single Redis while they are in use. An address may lead to another server
// than it did, and the server before may live on: after a failover behind a proxy, a Kubernetes Service or a name, the
// open connections still lead to the old master, which is a replica by then.

// renewedClient is the client of a single Redis that [New] makes. Its commands and pipelines go to the connections of
// the moment, which Renew replaces; a redis.Store calls Renew. What holds on to a connection, a transaction or a
// subscription, has a connection of its own, which is not replaced. It is safe for concurrent use.
type renewedClient struct {
	*goredis.Client // has no connections: a hook leads its commands elsewhere

	lasting *goredis.Client // for what holds on to a connection

	open    func() *goredis.Client // returns a client without connections
	moment  atomic.Pointer[connections]
	onMoved atomic.Pointer[func()]

	renewing sync.Mutex // held while connections are made
	replace  sync.Mutex // guards what follows, and held while those of the moment are replaced
	hooks    []goredis.Hook
	closed   bool
}

func newClient(open func() *goredis.Client) *renewedClient {
	c := &renewedClient{Client: open(), lasting: open(), open: open}
	c.moment.Store(c.newConnections())
	c.Client.AddHook(momentHook{c})
	return c
}

// AddHook adds a hook to all connections, of now and later.
func (c *renewedClient) AddHook(hook goredis.Hook) {
	c.replace.Lock()
	defer c.replace.Unlock()
	c.hooks = append(c.hooks, hook)
	c.moment.Load().AddHook(hook)
	c.lasting.AddHook(hook)
}

// Conn returns a connection that is not replaced.
func (c *renewedClient) Conn() *goredis.Conn { return c.lasting.Conn() }

// Watch runs a transaction.
func (c *renewedClient) Watch(ctx context.Context, f func(*goredis.Tx) error, keys ...string) error {
	return c.lasting.Watch(ctx, f, keys...)
}

// TxPipeline returns a pipeline that is a transaction.
func (c *renewedClient) TxPipeline() goredis.Pipeliner { return c.lasting.TxPipeline() }

// TxPipelined runs a pipeline that is a transaction.
func (c *renewedClient) TxPipelined(ctx context.Context, f func(goredis.Pipeliner) error) ([]goredis.Cmder, error) {
	return c.lasting.TxPipelined(ctx, f)
}

// Subscribe subscribes to channels.
func (c *renewedClient) Subscribe(ctx context.Context, channels ...string) *goredis.PubSub {
	return c.lasting.Subscribe(ctx, channels...)
}

// PSubscribe subscribes to the channels that match patterns.
func (c *renewedClient) PSubscribe(ctx context.Context, patterns ...string) *goredis.PubSub {
	return c.lasting.PSubscribe(ctx, patterns...)
}

// SSubscribe subscribes to sharded channels.
func (c *renewedClient) SSubscribe(ctx context.Context, channels ...string) *goredis.PubSub {
	return c.lasting.SSubscribe(ctx, channels...)
}

// connections are a client of their own, which is closed after its last use.
type connections struct {
	*goredis.Client

	uses       *clock.References // calls under way, and the time in which these are the connections of the moment
	closeError error

	mu      sync.Mutex // guards what follows
	address string     // where the first connection leads; empty before it
	several bool       // another one leads elsewhere
}

func (c *renewedClient) newConnections() *connections {
	made := &connections{Client: c.open()}
	made.uses = clock.NewReferences(func() { made.closeError = made.Close() })
	made.AddHook(addressHook{client: c, made: made})
	return made
}

// leadsElsewhere notes where a new connection leads. It reports whether that is another address than the one where all
// others lead: those of a balanced name, which lead to several, tell nothing.
func (c *connections) leadsElsewhere(address string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.address == "" {
		c.address = address
	}
	if c.address == address || c.several {
		return false
	}
	c.several = true
	return true
}

// hold returns the connections of the moment, which stay open until a release of their uses; nil once the client is
// closed.
func (c *renewedClient) hold() *connections {
	for {
		held := c.moment.Load()
		if held.uses.Acquire() {
			return held
		}
		if held == c.moment.Load() {
			return nil
		}
	}
}

// Plain returns the client whose commands go to the connections of the moment.
func (c *renewedClient) Plain() *goredis.Client { return c.Client }

// OnMoved has a function called when a new connection leads to another address than the others, as it does after a
// name was changed. The function must not block.
func (c *renewedClient) OnMoved(f func()) { c.onMoved.Store(&f) }

// Renew makes as many new connections as are open, and uses them from then on if a function accepts a client that
// has them and no others. The connections before are closed when the last call on them has returned. It reports
// whether they were replaced: they are not if none is open, if no new one can be made, or if the function returns an
// error. It waits for the new ones for up to [ConnectBudget].
func (c *renewedClient) Renew(ctx context.Context, accept func(fresh *goredis.Client) error) (renewed bool, err error) {
	c.renewing.Lock()
	defer c.renewing.Unlock()
	before := c.moment.Load()
	open := int(before.PoolStats().TotalConns)
	if open == 0 {
		return false, nil
	}
	fresh := c.newConnections()
	if err = connect(ctx, fresh.Client, open); err == nil {
		err = accept(fresh.Client)
	}
	if err != nil || !c.use(fresh) {
		fresh.uses.Release()
		return false, err
	}
	before.uses.Release()
	return true, nil
}

// use makes connections those of the moment, unless the client is closed.
func (c *renewedClient) use(fresh *connections) bool {
	c.replace.Lock()
	defer c.replace.Unlock()
	if c.closed {
		return false
	}
	for _, hook := range c.hooks {
		fresh.AddHook(hook)
	}
	c.moment.Store(fresh)
	return true
}

// PoolStats returns the statistics of the connections of the moment.
func (c *renewedClient) PoolStats() *goredis.PoolStats { return c.moment.Load().PoolStats() }

// Close closes the client. Calls under way end first, each within its timeout.
func (c *renewedClient) Close() error {
	c.replace.Lock()
	defer c.replace.Unlock()
	if c.closed {
		return goredis.ErrClosed
	}
	c.closed = true
	last := c.moment.Load()
	last.uses.Release()
	<-last.uses.Closed
	return errors.Join(last.closeError, c.lasting.Close(), c.Client.Close())
}

// connectors is how many connections are made at once: a handshake of TLS takes a millisecond of the processor.
const connectors = 4

// connect opens connections of a client, and logs them in. It returns an error if not even one could be made; what a
// connected server answers to a PING is none.
func connect(ctx context.Context, client *goredis.Client, count int) error {
	ctx, cancel := context.WithTimeout(ctx, ConnectBudget)
	defer cancel()
	patient := client.WithTimeout(ConnectBudget)
	held := make([]*goredis.Conn, count) // so that each is another one
	for i := range held {
		held[i] = patient.Conn()
	}
	err := ping(ctx, held[0])
	connected := client.PoolStats().TotalConns > 0
	if connected {
		var next atomic.Int32
		var group sync.WaitGroup
		for range min(connectors, count-1) {
			group.Go(func() {
				for i := next.Add(1); int(i) < count; i = next.Add(1) {
					_ = ping(ctx, held[i]) // a request makes what is missing
				}
			})
		}
		group.Wait()
	}
	for _, conn := range held {
		_ = conn.Close() // returns the connection to the pool
	}
	if connected {
		return nil
	}
	return err
}

// momentHook leads the commands of a client to its connections of the moment.
type momentHook struct{ client *renewedClient }

// DialHook implements goredis.Hook. Nothing is dialed.
func (momentHook) DialHook(next goredis.DialHook) goredis.DialHook { return next }

// ProcessHook implements goredis.Hook.
func (h momentHook) ProcessHook(goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, command goredis.Cmder) error {
		held := h.client.hold()
		if held == nil {
			return goredis.ErrClosed
		}
		defer held.uses.Release()
		return held.Process(ctx, command)
	}
}

// ProcessPipelineHook implements goredis.Hook. No transaction comes here.
func (h momentHook) ProcessPipelineHook(goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, commands []goredis.Cmder) error {
		held := h.client.hold()
		if held == nil {
			for _, command := range commands {
				command.SetErr(goredis.ErrClosed)
			}
			return goredis.ErrClosed
		}
		defer held.uses.Release()
		pipeline := held.Pipeline()
		for _, command := range commands {
			_ = pipeline.Process(ctx, command) // Exec returns a pipeline's errors
		}
		_, err := pipeline.Exec(ctx)
		return err
	}
}

// addressHook notes where connections lead.
type addressHook struct {
	dialHook

	client *renewedClient
	made   *connections
}

// DialHook implements goredis.Hook.
func (h addressHook) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err == nil && h.made.leadsElsewhere(conn.RemoteAddr().String()) && h.client.moment.Load() == h.made {
			if moved := h.client.onMoved.Load(); moved != nil {
				(*moved)()
			}
		}
		return conn, err
	}
}

// Interface guards
var (
	_ goredis.UniversalClient = (*renewedClient)(nil)
	_ goredis.Hook            = momentHook{}
	_ goredis.Hook            = addressHook{}
)
