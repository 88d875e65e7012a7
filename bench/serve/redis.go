package serve

import (
	"context"
	"net"
)

// Redis starts an empty Redis that writes nothing to disk.
func Redis(ctx context.Context, dir string) (*Process, error) {
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	return Start(ctx, "redis-server", addr, dir, nil, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
}
