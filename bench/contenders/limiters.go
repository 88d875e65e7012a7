package contenders

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-redis/redis_rate/v10"
	goredis "github.com/redis/go-redis/v9"
)

// limiter decides one request per call.
type limiter interface {
	io.Closer
	take(ctx context.Context, key string) (answer, error)
}

// answer is the decision for one request.
type answer struct {
	allowed    bool
	remaining  int64
	resetAfter time.Duration
}

// The ways to limit.
const (
	EvalSHA    = "evalsha"
	Pipelined  = "pipelined"  // as EvalSHA, by go-redis's AutoPipeliner
	Concurrent = "concurrent" // as Pipelined, with batches as this repository's handler has them
	RedisRate  = "redis_rate"
	Lone       = "lone" // as EvalSHA, on a connection without a pool and its checks
	Wait       = "wait" // decides nothing; a batch is answered at once
	Ping       = "ping" // decides nothing; a batch is a PING
)

// Ways lists those that decide.
var Ways = []string{EvalSHA, Pipelined, Concurrent, RedisRate, Lone}

// concurrentBatches are batches of at most so many calls as those of this repository's handler, several under way at once.
var concurrentBatches = goredis.AutoPipelineOptions{MaxBatchSize: 128, MaxConcurrentBatches: 4, Unordered: true}

// newLimiter returns the limiter of that name, on a go-redis client with default options.
func newLimiter(way, address string) (limiter, error) {
	if way == Lone {
		return newLone(address)
	}
	client := goredis.NewClient(&goredis.Options{Addr: address})
	switch way {
	case Wait:
		return new(floor), client.Close()
	case Ping:
		return &floor{Client: client}, nil
	case EvalSHA:
		return scripted{client, client}, nil
	case Pipelined:
		return newPipelined(client, goredis.DefaultBlockingAutoPipelineOptions())
	case Concurrent:
		return newPipelined(client, &concurrentBatches)
	case RedisRate:
		return rated{client, redis_rate.NewLimiter(client)}, nil
	}
	return nil, fmt.Errorf("contender %q: use %s, %s or %s", way, strings.Join(Ways, ", "), Wait, Ping)
}

//go:embed counter.lua
var counterText string

var counter = goredis.NewScript(counterText)

// scripted runs one script per request.
type scripted struct {
	goredis.Scripter
	io.Closer
}

// newPipelined returns the limiter whose scripts go-redis gathers in pipelines.
func newPipelined(client *goredis.Client, o *goredis.AutoPipelineOptions) (limiter, error) {
	pipeliner, err := client.AutoPipelineWithOptions(o)
	return scripted{pipeliner, pipelined{pipeliner, client}}, err
}

// pipelined is an AutoPipeliner and its client, to be closed.
type pipelined struct {
	pipeliner *goredis.AutoPipeliner
	client    *goredis.Client
}

// Close implements [io.Closer].
func (p pipelined) Close() error { return errors.Join(p.pipeliner.Close(), p.client.Close()) }

func (s scripted) take(ctx context.Context, key string) (answer, error) {
	numbers, err := counter.Run(ctx, s, []string{"plain:{" + key + "}"}, Limit, Window.Microseconds()).Int64Slice()
	if err != nil {
		return answer{}, err
	}
	if len(numbers) != 3 {
		return answer{}, fmt.Errorf("the script returned %v", numbers)
	}
	return answer{numbers[0] == 1, numbers[1], time.Duration(numbers[2]) * time.Microsecond}, nil
}

// rated uses the GCRA of redis_rate.
type rated struct {
	*goredis.Client
	limiter *redis_rate.Limiter
}

func (r rated) take(ctx context.Context, key string) (answer, error) {
	result, err := r.limiter.Allow(ctx, key, redis_rate.Limit{Rate: Limit, Burst: Limit, Period: Window})
	if err != nil {
		return answer{}, err
	}
	return answer{result.Allowed > 0, int64(result.Remaining), result.ResetAfter}, nil
}
