package contenders

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Windows are those of the policies of a request, which meets the first one or more.
var Windows = [...]time.Duration{Window, 24 * time.Hour, time.Minute, 48 * time.Hour}

// quota is what a client has of a policy.
type quota struct {
	window time.Duration
	suffix string // of its key
}

// quotas are those of Windows.
var quotas = func() (quotas [len(Windows)]quota) {
	for i, window := range Windows {
		quotas[i].window = window
		if i > 0 {
			quotas[i].suffix = ":" + window.String()
		}
	}
	return quotas
}()

//go:embed counter.lua
var counterText string

var counter = goredis.NewScript(counterText)

// keys are those of the script.
func (q quota) keys(client string) []string { return []string{"plain:{" + client + "}" + q.suffix} }

// decided reads the answer of the script.
func decided(call *goredis.Cmd) (answer, error) {
	numbers, err := call.Int64Slice()
	if err != nil {
		return answer{}, err
	}
	if len(numbers) != 3 {
		return answer{}, fmt.Errorf("the script returned %v", numbers)
	}
	return answer{numbers[0] == 1, numbers[1], time.Duration(numbers[2]) * time.Microsecond}, nil
}

// scripted runs one script per policy, one after the other, until one denies. What those before it have counted stays.
type scripted struct {
	goredis.Scripter
	io.Closer
	quotas []quota
}

func (s scripted) take(ctx context.Context, key string) (least answer, err error) {
	for i, q := range s.quotas {
		got, err := decided(counter.Run(ctx, s, q.keys(key), Limit, q.window.Microseconds()))
		if err != nil || !got.allowed {
			return got, err
		}
		if i == 0 || got.remaining < least.remaining {
			least = got
		}
	}
	return least, nil
}

// together sends the scripts of all policies at once, which go-redis gathers in pipelines, and waits for all answers. What
// policies have counted beside one that denies stays.
type together struct {
	pipelined
	quotas []quota
}

// newTogether returns the limiter, and has Redis know the script.
func newTogether(client *goredis.Client, quotas []quota) (limiter, error) {
	if err := counter.Load(context.Background(), client).Err(); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	pipeliner, err := client.AsyncAutoPipeline()
	return together{pipelined{pipeliner, client}, quotas}, err
}

func (t together) take(ctx context.Context, key string) (least answer, err error) {
	var calls [len(Windows)]*goredis.Cmd
	for i, q := range t.quotas {
		calls[i] = counter.EvalSha(ctx, t.pipeliner, q.keys(key), Limit, q.window.Microseconds())
	}
	for i := range t.quotas { // all have been sent, and are waited for
		got, failed := decided(calls[i])
		if err == nil {
			err = failed
		}
		if i == 0 || !got.allowed || least.allowed && got.remaining < least.remaining {
			least = got
		}
	}
	return least, err
}
