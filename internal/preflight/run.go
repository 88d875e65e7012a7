package preflight

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// preflight is one check of a configuration and what it has found so far.
type preflight struct {
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
	hello   helloReply
	logs    bool // whether sliding_window_log is tried

	absent       []string // commands that the server does not have
	scriptAdvice string   // what to do where a script fails, as the commands that were tried show
}

// leastTimeout is how long a check waits for an answer at the least, so that a Redis too slow for the
// configured timeout is measured and not just unreachable.
const leastTimeout = 2 * time.Second

// Run tries everything. Where Redis could not be asked, unasked is true and the findings say why.
func Run(ctx context.Context, o Options) (findings []Finding, unasked bool) {
	c := &preflight{options: o}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if client := c.reach(ctx); client != nil {
		defer client.Close() //nolint:errcheck // all was asked
		c.tryServers(ctx, client)
	}
	return c.merged(), c.unasked
}

// tryServers tries every server that was reached.
func (p *preflight) tryServers(ctx context.Context, client redis.UniversalClient) {
	for _, try := range []func(context.Context, *checkedServer){
		p.tryVersion, p.tryRole, p.tryPermissions, p.tryAdminPermissions,
		func(ctx context.Context, s *checkedServer) { p.tryScripts(ctx, client, s) },
		p.tryRoundTrip, p.tryClock, p.tryEviction, p.tryIdleTimeout,
	} {
		for i := range p.servers {
			try(ctx, &p.servers[i])
		}
	}
}

// clientOptions are the configured ones, with the patience of a check.
func (p *preflight) clientOptions() limiter.ClientOptions {
	o := p.options.Client
	o.Timeout = max(leastTimeout, o.Timeout)
	o.PoolSize = 2
	return o
}

func (p *preflight) ok(check, server, detail string) {
	p.findings = append(p.findings, Finding{Check: check, Result: OK, Detail: detail, server: server})
}

func (p *preflight) warn(check, server, detail, advice string) {
	p.findings = append(p.findings, Finding{Check: check, Result: Warning, Detail: detail, Advice: advice, server: server})
}

func (p *preflight) failed(check, server, detail, advice string) {
	p.findings = append(p.findings, Finding{Check: check, Result: Failed, Detail: detail, Advice: advice, server: server})
}
