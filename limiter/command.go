package limiter

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// Command runs a command that decides nothing, such as one of administration, and returns its reply; nil
// where Redis replies so. The key at that place of the arguments says which master of a Cluster runs it.
// It is sent once, also while the breaker is open, and its failure opens none. An error wraps
// [ErrUndecided]; the command may have run nevertheless, unless [Answered].
func (r *Redis) Command(ctx context.Context, keyAt int8, args ...any) (any, error) {
	if !r.uses.acquire() {
		return nil, errClosed
	}
	defer r.uses.release()
	cmd := noRetryCmd{redis.NewCmd(ctx, args...)}
	cmd.SetFirstKeyPos(keyAt)
	err := r.client.Process(ctx, cmd)
	if errors.Is(err, redis.Nil) {
		return nil, nil //nolint:nilnil // the reply is nil
	}
	return cmd.Val(), undecided(err)
}
