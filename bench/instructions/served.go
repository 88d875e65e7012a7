package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/load"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/serve"
)

const (
	servedWarm = 200 // requests that are not counted, before callgrind watches and then again

	// servedRounds is how many times the requests of a row alternate with those of the others: what a busy machine adds
	// falls on all of them.
	servedRounds = 4
)

// errNotCounted is the error of all rows of Caddy but the first: they fail together.
var errNotCounted = errors.New("not measured, as the first row of Caddy says")

// countServed counts the rows of Caddy. All are sites of one process.
func (m *measurement) countServed(ctx context.Context, rows []servedRow) []line {
	lines := make([]line, len(rows))
	if len(rows) == 0 {
		return lines
	}
	err := both(func(i int) error {
		for j := range len(lines[0].counts[i]) {
			counts, err := m.countSites(ctx, m.builds[i], rows)
			if err != nil {
				return fmt.Errorf("caddy of %s: %w", m.builds[i].name, err)
			}
			for k, count := range counts {
				lines[k].counts[i][j] = count
			}
		}
		return nil
	})
	for k, r := range rows {
		lines[k].name, lines[k].err = r.name, err
		lines[k].report()
		if err != nil {
			err = errNotCounted // the reason is told once
		}
	}
	return lines
}

// countSites returns the instructions of a request of each row, in one process.
func (m *measurement) countSites(ctx context.Context, b build, rows []servedRow) ([]float64, error) {
	sites := make([]string, len(rows))
	for k, r := range rows {
		sites[k] = r.site
	}
	caddy, err := serve.CountedCaddy(ctx, m.dir, b.binary, sites)
	if err != nil {
		return nil, err
	}
	defer caddy.Stop()
	visitors := make([]*visitor, len(rows)) // their connections end with Caddy
	for k, r := range rows {
		if visitors[k], err = newVisitor(r, caddy.Addrs[k]); err != nil {
			return nil, err
		}
	}
	if err := warm(ctx, caddy, visitors); err != nil {
		return nil, err
	}
	counts := make([]float64, len(rows))
	for range servedRounds {
		for k, v := range visitors {
			count, err := m.countRound(ctx, caddy, v)
			if err != nil {
				return nil, err
			}
			counts[k] += count / servedRounds
		}
	}
	return counts, nil
}

// warm has each site answer requests, before callgrind watches and then again.
func warm(ctx context.Context, caddy *serve.Counted, visitors []*visitor) error {
	for i := range 2 {
		if i == 1 {
			if err := caddy.Begin(ctx); err != nil {
				return err
			}
		}
		for _, v := range visitors {
			if err := v.visit(servedWarm); err != nil {
				return err
			}
		}
	}
	return nil
}

// countRound counts a part of a row's requests.
func (m *measurement) countRound(ctx context.Context, caddy *serve.Counted, v *visitor) (float64, error) {
	if err := v.visit(1); err != nil { // its connection is open and in use
		return 0, err
	}
	if err := caddy.Reset(ctx); err != nil {
		return 0, err
	}
	requests := m.served / servedRounds
	if err := v.visit(requests); err != nil {
		return 0, err
	}
	count, err := caddy.Count(ctx)
	return count / float64(requests), err
}

// visitor sends the requests of a row on one connection, one after the other.
type visitor struct {
	row     servedRow
	client  *load.Client
	request [][]byte
}

// newVisitor connects. The first requests of a client that is to be denied may pass.
func newVisitor(r servedRow, addr string) (*visitor, error) {
	client, err := load.Dial(addr, 1)
	if err != nil {
		return nil, err
	}
	host, _, _ := net.SplitHostPort(addr) // it is one
	v := &visitor{r, client, [][]byte{fmt.Appendf(nil, "GET / HTTP/1.1\r\nHost: %s\r\n%s\r\n", host, r.header)}}
	if _, err := client.Run(v.request, 2); err != nil {
		client.Close()
		return nil, err
	}
	return v, nil
}

// visit makes requests, which all have the status that the row says.
func (v *visitor) visit(requests int) error {
	result, err := v.client.Run(v.request, requests)
	denied := 0
	if v.row.denied {
		denied = requests
	}
	if err == nil && (result.Failed > 0 || result.Denied != denied) {
		err = fmt.Errorf("%s: of %d requests %d were denied and %d failed", v.row.name, requests, result.Denied, result.Failed)
	}
	return err
}
