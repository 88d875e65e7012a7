package limiter_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/failover"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis/dial"
)

// One policy in this process: two requests a minute for each key.
func ExampleAllow() {
	store := memory.New()
	perMinute, err := limiter.NewPolicy(limiter.Settings{Name: "api", Limit: 2, Window: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		result, err := limiter.Allow(context.Background(), store, perMinute, "alice")
		fmt.Println(result.Passes(), result.Remaining, err)
	}
	// Output:
	// true 1 <nil>
	// true 0 <nil>
	// false 0 <nil>
}

// A policy that bans: who is denied is refused for a minute, at the next offense for an hour.
func ExampleSettings_ban() {
	now := int64(1_790_000_000_000_000) // microseconds
	store := memory.NewOnClock(func() int64 { return now })
	logins, err := limiter.NewPolicy(limiter.Settings{
		Name: "logins", Algorithm: limiter.FixedWindow, Limit: 1, Window: time.Minute, Ban: []time.Duration{time.Minute, time.Hour},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 5 {
		result, err := limiter.Allow(context.Background(), store, logins, "alice")
		fmt.Println(result.Passes(), result.Banned, result.BanBegins, result.BanLeft, err)
		if now += 5_000_000; result.BanBegins {
			now += result.BanLeft.Microseconds()
		}
	}
	// Output:
	// true false false 0s <nil>
	// false true true 1m0s <nil>
	// true false false 0s <nil>
	// false true true 1h0m0s <nil>
	// true false false 0s <nil>
}

// Several policies on one request: it is charged to all of them or to none.
func ExampleStore() {
	second, err := limiter.NewPolicy(limiter.Settings{Name: "second", Algorithm: limiter.TokenBucket, Limit: 5, Window: time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	day, err := limiter.NewPolicy(limiter.Settings{Name: "day", Limit: 8, Window: 24 * time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	var store limiter.Store = memory.NewOnClock(func() int64 { return 1_790_000_000_000_000 })
	for _, units := range []int64{4, 3, 1} {
		key := limiter.EncodeKey("alice")
		checks := []limiter.Check{{Policy: second, Key: key, Weight: units}, {Policy: day, Key: key, Weight: units}}
		if _, err := store.Decide(context.Background(), checks); err != nil {
			fmt.Println(err)
			return
		}
		binding := checks[limiter.Binding(checks)]
		fmt.Println(units, limiter.Allowed(checks), binding.Policy.Name(), binding.Result.Remaining, binding.Result.RetryAfter)
	}
	// Output:
	// 4 true second 1 0s
	// 3 false second 1 400ms
	// 1 true second 0 0s
}

// Redis decides for all processes together. While it does not answer, as here, this process decides by
// itself.
func Example_failover() {
	client, err := dial.New(dial.Options{Addresses: []string{"127.0.0.1:1"}}) // no server
	if err != nil {
		fmt.Println(err)
		return
	}
	shared := redis.New(client, redis.Options{KeyFormat: limiter.KeyFormat{Prefix: "rl"}})
	defer shared.Close() //nolint:errcheck // nothing is left to send
	store := failover.New(shared, memory.New(), failover.Options{DenyAge: time.Second})

	perDay, err := limiter.NewPolicy(limiter.Settings{Name: "api", Limit: 1000, Window: 24 * time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	checks := []limiter.Check{{Policy: perDay, Key: limiter.EncodeKey("alice")}}
	source, err := store.Decide(context.Background(), checks)
	fmt.Println(source, limiter.Allowed(checks), err)
	// Output:
	// fallback true <nil>
}

// A middleware for net/http.
func Example_http() {
	policy, err := limiter.NewPolicy(limiter.Settings{Name: "web", Algorithm: limiter.FixedWindow, Limit: 2, Window: time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	handler := limiter.Middleware(memory.New(), policy, limiter.ClientAddress)(hello)
	for range 3 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(w.Code)
	}
	// Output:
	// 200
	// 200
	// 429
}

// limitCalls returns an interceptor that lets each client address make as many calls as the policy allows.
func limitCalls(store limiter.Store, policy *limiter.Policy) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		host := ""
		if client, ok := peer.FromContext(ctx); ok {
			host, _, _ = net.SplitHostPort(client.Addr.String())
		}
		result, err := limiter.Allow(ctx, store, policy, host)
		switch {
		case err != nil:
			return nil, status.Error(codes.Unavailable, "rate limits are unavailable")
		case !result.Passes():
			pushback := strconv.FormatInt(result.RetryAfter.Milliseconds()+1, 10)
			_ = grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", pushback)) // fails outside a call alone
			return nil, status.Error(codes.ResourceExhausted, "too many calls")
		}
		return next(ctx, request)
	}
}

// An interceptor for gRPC servers, given to grpc.NewServer by grpc.UnaryInterceptor.
func Example_grpc() {
	policy, err := limiter.NewPolicy(limiter.Settings{Name: "calls", Algorithm: limiter.FixedWindow, Limit: 2, Window: time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	intercept := limitCalls(memory.New(), policy)
	ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 5000}})
	for range 3 {
		answer, err := intercept(ctx, nil, nil, func(context.Context, any) (any, error) { return "hello", nil })
		fmt.Println(answer, status.Code(err))
	}
	// Output:
	// hello OK
	// hello OK
	// <nil> ResourceExhausted
}

// A budget by estimate: a request takes what it may cost, and keeps what it has cost.
func Example_settle() {
	tokens, err := limiter.NewPolicy(limiter.Settings{Name: "tokens", Algorithm: limiter.FixedWindow, Limit: 10_000, Window: time.Hour, Refunds: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, user := context.Background(), "alice"
	store := failover.New(nil, memory.New(), failover.Options{})
	for _, used := range []int64{1500, 4000, 4600} {
		checks := []limiter.Check{{Policy: tokens, Key: limiter.EncodeKey(user), Weight: 4000, Refundable: true}}
		source, err := store.Decide(ctx, checks)
		if err != nil || !limiter.Allowed(checks) {
			fmt.Println(limiter.Allowed(checks), err)
			return
		}
		store.Settle(checks[0], used, source)
		quota, _ := limiter.Peek(ctx, store, tokens, user)
		fmt.Println(quota.Remaining)
	}
	// Output:
	// 8500
	// 4500
	// 0
}
