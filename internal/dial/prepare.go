package dial

import (
	"context"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// This file makes connections ready before requests use them. A request that connects waits for several round trips, and
// for one more where Redis does not have its script.

// Prepare has a client hold as many connections as are wanted, and sends commands, all within a time that may be longer
// than the client's. The connections share the commands: a new one carries 14 KB in its first round trip, twice as much in
// the next. Prepare returns an error where the server does not answer a PING, or refuses the connection. A user may lack
// the right to send one. What the server answers to the commands is in them.
func Prepare(ctx context.Context, client *goredis.Client, within time.Duration, connections int, commands []goredis.Cmder) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	patient := client.WithTimeout(within)
	held := make([]*goredis.Conn, max(1, connections)) // so that each is another one
	for i := range held {
		held[i] = patient.Conn()
	}
	defer func() {
		for _, conn := range held {
			_ = conn.Close() // it returns to the pool
		}
	}()
	if err := ping(ctx, held[0]); err != nil && !goredis.HasErrorPrefix(err, "NOPERM") {
		return err
	}
	var group sync.WaitGroup
	for i, conn := range held {
		group.Go(func() { prepare(ctx, conn, i, len(held), commands) })
	}
	group.Wait()
	return nil
}

// prepare sends the share of one connection of several; without one, a PING. A request makes a connection that is missing.
func prepare(ctx context.Context, conn *goredis.Conn, number, of int, commands []goredis.Cmder) {
	if number >= len(commands) {
		_ = ping(ctx, conn)
		return
	}
	pipeline := conn.Pipeline()
	for i := number; i < len(commands); i += of {
		_ = pipeline.Process(ctx, commands[i]) // Exec returns a pipeline's errors
	}
	_, _ = pipeline.Exec(ctx) // every command has its own error
}

// Prepare makes connections of the moment ready, as the function does.
func (c *renewedClient) Prepare(ctx context.Context, within time.Duration, connections int, commands []goredis.Cmder) error {
	held := c.hold()
	if held == nil {
		return goredis.ErrClosed
	}
	defer held.uses.Release()
	return Prepare(ctx, held.Client, within, connections, commands)
}
