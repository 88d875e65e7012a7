package limiter

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// scanCount is how many keys a SCAN visits: less than a millisecond of Redis's time.
const scanCount = 1000

var errKindOfClient = errors.New("this kind of Redis client has no masters that are known")

// pattern matches the names of keys of this store that end so, which may have wildcards.
func (r *Redis) pattern(ends string) string {
	head := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(r.keyFormat.newWriter().head)
	return head + "*}:" + ends
}

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
	return undecided(errKindOfClient)
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

// masterOf returns the client of the master that has a key of that name.
func (r *Redis) masterOf(ctx context.Context, name string) (*redis.Client, error) {
	switch client := r.client.(type) {
	case *redis.ClusterClient:
		return client.MasterForKey(ctx, name)
	case *redis.Client:
		return client, nil
	}
	return nil, errKindOfClient
}
