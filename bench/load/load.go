// Package load sends a web server requests on open connections, and measures the responses.
package load

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Client holds connections to a server. They stay open from one run to the next, so that no run measures
// how they begin.
type Client struct {
	conns    []*conn
	position int // of the next run in the requests
}

// Result is the measurement of a run.
type Result struct {
	Elapsed time.Duration
	P50     time.Duration // median between a request and its response
	Denied  int           // responses with the status 429
	Failed  int           // responses with another status than 200 and 429
}

// Dial opens connections to an address.
func Dial(addr string, connections int) (*Client, error) {
	c := new(Client)
	for range connections {
		dialed, err := net.Dial("tcp", addr)
		if err != nil {
			c.Close()
			return nil, err
		}
		c.conns = append(c.conns, &conn{Conn: dialed})
	}
	return c, nil
}

// Close closes the connections.
func (c *Client) Close() {
	for _, conn := range c.conns {
		_ = conn.Close() // nothing is under way
	}
}

// Run sends a number of requests, taken from these in turn. Each connection sends its next one right after
// a response.
func (c *Client) Run(requests [][]byte, number int) (Result, error) {
	var next, denied, failed atomic.Int64
	var failure atomic.Pointer[error]
	latencies := make([]time.Duration, number)
	var running sync.WaitGroup
	start := time.Now()
	for _, conn := range c.conns {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < number && failure.Load() == nil; i = int(next.Add(1)) - 1 {
				sent := time.Now()
				status, err := conn.exchange(requests[(c.position+i)%len(requests)])
				if err != nil {
					failure.Store(&err)
					return
				}
				latencies[i] = time.Since(sent)
				switch status {
				case 200:
				case 429:
					denied.Add(1)
				default:
					failed.Add(1)
				}
			}
		})
	}
	running.Wait()
	elapsed := time.Since(start)
	c.position += number
	if err := failure.Load(); err != nil {
		return Result{}, *err
	}
	slices.Sort(latencies)
	return Result{
		Elapsed: elapsed, P50: latencies[number/2],
		Denied: int(denied.Load()), Failed: int(failed.Load()),
	}, nil
}

// conn is a connection with the bytes of a response.
type conn struct {
	net.Conn
	buffer [4096]byte
}

// patience bounds the time of a response.
const patience = 5 * time.Second

// exchange sends a request and returns the status of its response.
func (c *conn) exchange(request []byte) (status int, err error) {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	if _, err := c.Write(request); err != nil {
		return 0, err
	}
	for n := 0; ; {
		read, err := c.Read(c.buffer[n:])
		if err != nil {
			return 0, err
		}
		n += read
		status, whole, err := parse(c.buffer[:n])
		if err != nil || whole {
			return status, err
		}
	}
}

var (
	headEnd      = []byte("\r\n\r\n")
	lengthHeader = []byte("\r\nContent-Length: ")
)

// parse returns the status of a response of HTTP/1.1, and whether it is whole.
func parse(response []byte) (status int, whole bool, err error) {
	end := bytes.Index(response, headEnd)
	if end < 0 {
		return 0, false, nil
	}
	head, body := response[:end+2], response[end+len(headEnd):]
	const statusAt, statusEnd = len("HTTP/1.1 "), len("HTTP/1.1 200")
	_, length, found := bytes.Cut(head, lengthHeader)
	if !found || len(head) < statusEnd {
		return 0, false, fmt.Errorf("the load generator cannot read the response %q", head)
	}
	length, _, _ = bytes.Cut(length, headEnd[:2])
	size, err := strconv.Atoi(string(length))
	if err != nil {
		return 0, false, err
	}
	status, err = strconv.Atoi(string(head[statusAt:statusEnd]))
	return status, len(body) >= size, err
}
