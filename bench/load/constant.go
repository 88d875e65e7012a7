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

// Constant sends requests at a rate that does not depend on the answers. A latency counts from the
// instant that the request was due, so that a server that is late cannot hide it by slowing the
// sender down.
type Constant struct {
	Addr        string
	Rate        float64 // requests per second; 0: as many as the connections allow
	Connections int
	Duration    time.Duration
}

// Latencies are those of all requests, ascending.
type Latencies []time.Duration

// Quantile returns the latency that a part q of the requests, from 0 to 1, does not exceed.
func (l Latencies) Quantile(q float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	return l[min(len(l)-1, int(q*float64(len(l))))]
}

// client is one connection with at most one request under way.
type client struct {
	conn      net.Conn
	due       atomic.Int64 // of the request under way, nanoseconds since the run's start
	latencies []time.Duration
	refused   int
	err       error
}

// Run loads the server. It ends when all that was due within the duration is answered, at most
// answerWithin later.
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

// awaitAll waits for the answers to what was sent, and ends the connections.
func awaitAll(ctx context.Context, clients []*client, free <-chan *client) {
	for range clients {
		select {
		case <-free:
		case <-ctx.Done(): // those that still wait are counted as failed
		}
	}
	for _, client := range clients {
		_ = client.conn.Close() // closed already: fine
	}
}

// answerWithin is how long after the end of a run answers are waited for.
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

// send sends every request when it is due, on the connection that has been free the longest.
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

// requestTexts are the requests of all keys.
func requestTexts() [][]byte {
	texts := make([][]byte, Keys)
	for i := range texts {
		texts[i] = fmt.Appendf(nil, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Key: 203.0.%03d.%03d\r\n\r\n", (i+1)/256, (i+1)%256)
	}
	return texts
}

// read measures answers until the connection ends.
func (c *client) read(start time.Time, free chan<- *client) {
	reader := bufio.NewReader(c.conn)
	for {
		status, err := readAnswer(reader)
		if err != nil {
			return // a client that waits for an answer is counted as failed
		}
		c.latencies = append(c.latencies, time.Since(start)-time.Duration(c.due.Swap(idle)))
		if status >= 400 {
			c.refused++
		}
		free <- c
	}
}

// idle is the due time of a client that waits for no answer.
const idle = -1

// sum puts together what the clients have measured.
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
