package redis

import (
	"context"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
)

// scanCount is how many keys a SCAN visits: less than a millisecond of Redis's time.
const scanCount = 1000

// visitKeys takes a page of the names that one master has, and reports whether it wants more.
type visitKeys func(ctx context.Context, master *goredis.Client, names []string) (more bool, err error)

// scanKeys visits the keys that match a pattern, on all masters of a Cluster at once. The error wraps
// [limiter.ErrUndecided].
func (a *Admin) scanKeys(ctx context.Context, budget time.Duration, pattern string, visit visitKeys) error {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	scan := func(ctx context.Context, master *goredis.Client) error {
		return scanMaster(ctx, master, pattern, visit)
	}
	switch client := a.client.(type) {
	case *goredis.ClusterClient:
		err := client.ForEachMaster(ctx, scan)
		if err == nil {
			err = checkCovered(ctx, client)
		}
		return dial.Undecided(err)
	case *goredis.Client:
		return dial.Undecided(scan(ctx, client))
	}
	return dial.Undecided(errKindOfClient)
}

// checkCovered returns an error where a Cluster has slots without a master: a master that lost them may still hold their
// keys, and a SCAN of the others does not show that.
func checkCovered(ctx context.Context, client *goredis.ClusterClient) error {
	ranges, err := client.ClusterSlots(ctx).Result() //nolint:staticcheck // ClusterShards needs Redis 7
	if err != nil {
		return err
	}
	covered := 0
	for _, r := range ranges {
		covered += r.End - r.Start + 1
	}
	if covered < ClusterSlots {
		return dial.Failure(fmt.Sprintf("CLUSTERDOWN Hash slot not served: %d slots have no master", ClusterSlots-covered))
	}
	return nil
}

func scanMaster(ctx context.Context, master *goredis.Client, pattern string, visit visitKeys) error {
	for cursor := uint64(0); ; {
		names, next, err := master.Scan(ctx, cursor, pattern, scanCount).Result()
		if err != nil {
			return err
		}
		if len(names) > 0 {
			if more, err := visit(ctx, master, names); err != nil || !more {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
