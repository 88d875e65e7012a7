package limiter

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// scanCount is how many keys a SCAN visits: less than a millisecond of Redis's time.
const scanCount = 1000

// visitKeys takes a page of the names that one master has, and reports whether it wants more.
type visitKeys func(ctx context.Context, master *redis.Client, names []string) (more bool, err error)

// scanKeys visits the keys that match a pattern, on all masters of a Cluster at once. The error wraps
// [ErrUndecided].
func (r *Redis) scanKeys(ctx context.Context, budget time.Duration, pattern string, visit visitKeys) error {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	scan := func(ctx context.Context, master *redis.Client) error { return scanMaster(ctx, master, pattern, visit) }
	switch client := r.client.(type) {
	case *redis.ClusterClient:
		return undecided(client.ForEachMaster(ctx, scan))
	case *redis.Client:
		return undecided(scan(ctx, client))
	}
	return undecided(errors.New("this kind of Redis cannot be searched"))
}

func scanMaster(ctx context.Context, master *redis.Client, pattern string, visit visitKeys) error {
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
