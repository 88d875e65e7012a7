package checkup

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// checkup is one check of a configuration and what it has found so far.
type checkup struct {
	options  Options
	servers  []checkedServer
	masters  int // of a cluster, those that do not answer included
	findings []Finding
	unasked  bool // Redis could not be asked
}

// checkedServer is a server that decides.
type checkedServer struct {
	address string
	client  *redis.Client
	hello   greeting
	logs    bool // whether sliding_window_log is tried

	absent       []string // commands that the server does not have
	scriptAdvice string   // what to do where a script fails, as the commands that were tried show
}

// leastTimeout is how long a check waits for an answer at the least, so that a Redis too slow for the
// configured timeout is measured and not just unreachable.
const leastTimeout = 2 * time.Second

// Run tries everything. Where Redis could not be asked, unasked is true and the findings say why.
func Run(ctx context.Context, o Options) (findings []Finding, unasked bool) {
	c := &checkup{options: o}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if client := c.reach(ctx); client != nil {
		defer client.Close() //nolint:errcheck // all was asked
		c.tryServers(ctx, client)
	}
	return c.merged(), c.unasked
}

// tryServers tries every server that was reached.
func (c *checkup) tryServers(ctx context.Context, client redis.UniversalClient) {
	for _, try := range []func(context.Context, *checkedServer){
		c.tryVersion, c.tryRole, c.tryRights, c.tryAdminRights,
		func(ctx context.Context, s *checkedServer) { c.tryScripts(ctx, client, s) },
		c.tryRoundTrip, c.tryClock, c.tryEviction, c.tryIdleTimeout,
	} {
		for i := range c.servers {
			try(ctx, &c.servers[i])
		}
	}
}

// clientOptions are the configured ones, with the patience of a check.
func (c *checkup) clientOptions() limiter.ClientOptions {
	o := c.options.Client
	o.Timeout = max(leastTimeout, o.Timeout)
	o.PoolSize = 2
	return o
}

func (c *checkup) ok(check, server, detail string) {
	c.findings = append(c.findings, Finding{Check: check, Result: OK, Detail: detail, server: server})
}

func (c *checkup) warn(check, server, detail, advice string) {
	c.findings = append(c.findings, Finding{Check: check, Result: Warning, Detail: detail, Advice: advice, server: server})
}

func (c *checkup) failed(check, server, detail, advice string) {
	c.findings = append(c.findings, Finding{Check: check, Result: Failed, Detail: detail, Advice: advice, server: server})
}
