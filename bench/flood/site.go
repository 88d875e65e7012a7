package main

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// host is the site's name in URLs. Its connections go to the nodes.
const host = "http://shop.test"

// site is the nodes of a contender, which take turns by connection, as behind a balancer.
type site struct {
	nodes     []string
	turn      atomic.Uint64
	transport *http.Transport
}

func newSite(nodes []string) *site {
	s := &site{nodes: nodes}
	s.transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dial(ctx, new(net.Dialer)) },
		// Files of a page are asked for at once.
		MaxIdleConns: 256, MaxIdleConnsPerHost: 256, IdleConnTimeout: 20 * time.Second,
		DisableCompression: true,
	}
	return s
}

// dial connects to the node whose turn it is.
func (s *site) dial(ctx context.Context, d *net.Dialer) (net.Conn, error) {
	return d.DialContext(ctx, "tcp", s.nodes[s.turn.Add(1)%uint64(len(s.nodes))])
}

func (s *site) close() { s.transport.CloseIdleConnections() }
