package contenders

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
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

// Several lists those that know several policies.
var Several = []string{EvalSHA, Pipelined}

// concurrentBatches are batches of at most so many calls as those of this repository's handler, several under way at once.
var concurrentBatches = goredis.AutoPipelineOptions{MaxBatchSize: 128, MaxConcurrentBatches: 4, Unordered: true}

// newLimiter returns the limiter of that name and so many policies, on a go-redis client with default options. Only
// [EvalSHA] and [Pipelined] know more than one.
func newLimiter(way, address string, policies int) (limiter, error) {
	if policies < 1 || policies > len(Windows) || policies > 1 && !slices.Contains(Several, way) {
		return nil, fmt.Errorf("contender %q does not know %d policies", way, policies)
	}
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
		return scripted{client, client, quotas[:policies]}, nil
	case Pipelined:
		if policies > 1 {
			return newTogether(client, quotas[:policies])
		}
		return newPipelined(client, goredis.DefaultBlockingAutoPipelineOptions())
	case Concurrent:
		return newPipelined(client, &concurrentBatches)
	case RedisRate:
		return rated{client, redis_rate.NewLimiter(client)}, nil
	}
	return nil, fmt.Errorf("contender %q: use %s, %s or %s", way, strings.Join(Ways, ", "), Wait, Ping)
}

// newPipelined returns the limiter whose scripts go-redis gathers in pipelines.
func newPipelined(client *goredis.Client, o *goredis.AutoPipelineOptions) (limiter, error) {
	pipeliner, err := client.AutoPipelineWithOptions(o)
	return scripted{pipeliner, pipelined{pipeliner, client}, quotas[:1]}, err
}

// pipelined is an AutoPipeliner and its client, to be closed.
type pipelined struct {
	pipeliner *goredis.AutoPipeliner
	client    *goredis.Client
}

// Close implements [io.Closer].
func (p pipelined) Close() error { return errors.Join(p.pipeliner.Close(), p.client.Close()) }

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
