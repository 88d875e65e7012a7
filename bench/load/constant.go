package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Constant sends requests at a rate that does not depend on the responses. A latency counts from the
// instant at which the request was due. A slow server therefore cannot hide it by slowing the sender.
type Constant struct {
	Addr        string
	Rate        float64 // requests a second; 0: as many as the connections allow
	Connections int
	Duration    time.Duration
}

// Latencies holds the latencies of all requests, ascending.
type Latencies []time.Duration

// Quantile returns the latency that a fraction q of the requests, from 0 to 1, does not exceed.
func (l Latencies) Quantile(q float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	return l[min(len(l)-1, int(q*float64(len(l))))]
}

// client is one connection with at most one request in flight.
type client struct {
	conn      net.Conn
	due       atomic.Int64 // of the request in flight, nanoseconds since the run's start
	latencies []time.Duration
	refused   int
	err       error
}

// Run loads the server. It ends with the last response to the requests that were due within the
// duration, at most answerWithin later.
func (c Constant) Run(ctx context.Context) (Result, Latencies, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Duration+answerWithin)
	defer cancel()
	clients, err := c.dial(ctx)
	if err != nil {
		return Result{}, nil, err
	}
	stop := context.AfterFunc(ctx, func() {
		for _, client := range clients {
			_ = client.conn.SetDeadline(time.Unix(1, 0)) // ends reads and writes at once
		}
	})
	defer stop()
	start := time.Now()
	free := make(chan *client, len(clients))
	var readers sync.WaitGroup
	for _, client := range clients {
		free <- client
		readers.Go(func() { client.read(start, free) })
	}
	c.send(ctx, start, free)
	awaitAll(ctx, clients, free)
	readers.Wait()
	return c.sum(clients)
}

// awaitAll waits for the responses to all sent requests, and closes the connections.
func awaitAll(ctx context.Context, clients []*client, free <-chan *client) {
	for range clients {
		select {
		case <-free:
		case <-ctx.Done(): // requests without a response count as failed
		}
	}
	for _, client := range clients {
		_ = client.conn.Close() // it may be closed already
	}
}

// answerWithin bounds the wait for responses after the end of a run.
const answerWithin = 5 * time.Second

func (c Constant) dial(ctx context.Context) ([]*client, error) {
	var clients []*client
	for range c.Connections {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.Addr)
		if err != nil {
			for _, c := range clients {
				_ = c.conn.Close() // nothing was sent
			}
			return nil, err
		}
		c := &client{conn: conn}
		c.due.Store(idle)
		clients = append(clients, c)
	}
	return clients, nil
}

// send sends every request when it is due, on the connection that was idle for longest.
func (c Constant) send(ctx context.Context, start time.Time, free chan *client) {
	requests := requestTexts()
	for i := 0; ; i++ {
		due := time.Since(start)
		if c.Rate > 0 {
			due = time.Duration(float64(i) / c.Rate * float64(time.Second))
		}
		if due >= c.Duration {
			return
		}
		pauseUntil(start.Add(due))
		select {
		case client := <-free:
			if c.Rate == 0 {
				due = time.Since(start)
			}
			client.due.Store(int64(due))
			if _, err := client.conn.Write(requests[i%len(requests)]); err != nil {
				client.err = errors.Join(client.err, err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// requestTexts returns the requests of all keys.
func requestTexts() [][]byte {
	texts := make([][]byte, Keys)
	for i := range texts {
		texts[i] = fmt.Appendf(nil, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Key: 203.0.%03d.%03d\r\n\r\n", (i+1)/256, (i+1)%256)
	}
	return texts
}

// read measures responses until the connection ends.
func (c *client) read(start time.Time, free chan<- *client) {
	reader := bufio.NewReader(c.conn)
	for {
		status, err := readAnswer(reader)
		if err != nil {
			return // a client that waits for a response counts as failed
		}
		c.latencies = append(c.latencies, time.Since(start)-time.Duration(c.due.Swap(idle)))
		if status >= 400 {
			c.refused++
		}
		free <- c
	}
}

// idle is the due time of a client that waits for no response.
const idle = -1

// sum combines the measurements of the clients.
func (c Constant) sum(clients []*client) (Result, Latencies, error) {
	var result Result
	var all Latencies
	var errs []error
	refused := 0
	for _, client := range clients {
		all = append(all, client.latencies...)
		refused += client.refused
		errs = append(errs, client.err)
		if client.due.Load() != idle {
			result.Failed++
		}
	}
	if len(all) == 0 {
		return result, nil, errors.Join(append(errs, errors.New("the server never answered"))...)
	}
	slices.Sort(all)
	result.Rate = float64(len(all)) / c.Duration.Seconds()
	result.P50, result.P99 = all.Quantile(0.5), all.Quantile(0.99)
	result.Refused = float64(refused) / float64(len(all))
	return result, all, errors.Join(errs...)
}
