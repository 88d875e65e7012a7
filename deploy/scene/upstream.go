package scene

import (
	"context"
	"net"
	"net/http"
	"time"
)

// upstream is a server behind Caddy that responds on demand.
type upstream struct {
	server   *http.Server
	addr     string
	requests chan chan struct{} // a request that waits; closing its channel sends the response
}

func startUpstream(ctx context.Context) (*upstream, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	u := &upstream{addr: listener.Addr().String(), requests: make(chan chan struct{})}
	u.server = &http.Server{Handler: u, ReadHeaderTimeout: time.Minute}
	go func() { _ = u.server.Serve(listener) }() // ends with Close
	return u, nil
}

// ServeHTTP implements http.Handler.
func (u *upstream) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	respond := make(chan struct{})
	select {
	case u.requests <- respond:
		<-respond
	case <-r.Context().Done():
	}
}
