package command

import (
	"context"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// preflight is one run of the checks and its findings.
type preflight struct {
	options  RedisTarget
	doing    func(what string)
	servers  []checkedServer
	masters  int // of a cluster, also those that do not answer
	findings []Finding
	unasked  bool // Redis could not be asked

	announced string // the master's address, by the sentinels
}

// checkedServer is a server that decides.
type checkedServer struct {
	address      string
	client       goredis.UniversalClient
	hello        helloReply
	decides      bool   // by each algorithm that was tried
	scriptAdvice string // advice for a failed script that follows from the checked commands
}

// leastTimeout is the shortest timeout of a check, so that a Redis that is too slow for the configured
// timeout is measured instead of unreachable.
const leastTimeout = 2 * time.Second

// Run runs all checks, and calls doing with what is checked next. If Redis could not be asked, unasked is true and the findings
// give the reason.
func Run(ctx context.Context, o RedisTarget, doing func(what string)) (findings []Finding, unasked bool) {
	p := &preflight{options: o, doing: doing}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if client := p.reach(ctx); client != nil {
		defer client.Close() //nolint:errcheck // nothing else is asked
		p.tryServers(ctx, client)
	}
	p.tryPrefix()
	return p.merged(), p.unasked
}

// tryPrefix says what the default prefix means. It is no warning: one site alone needs no other.
func (p *preflight) tryPrefix() {
	if prefix := p.options.Naming.Prefix; prefix == limiter.DefaultKeyPrefix {
		p.findings = append(p.findings, Finding{
			Check: "key_prefix", Result: OK, Detail: prefix + ", the default", Advice: limiter.SharedAdvice,
		})
	}
}

// tryServers runs the checks of every server that was reached.
func (p *preflight) tryServers(ctx context.Context, client goredis.UniversalClient) {
	tries := []struct {
		what string
		try  func(context.Context, *checkedServer)
	}{
		{"version", p.tryVersion},
		{"role", p.tryRole},
		{"rights", p.tryPermissions},
		{"rights for commands", p.tryAdminPermissions},
		{"rights for overrides", p.tryOverridePermissions},
		{"scripts", func(ctx context.Context, s *checkedServer) { p.tryScripts(ctx, client, s) }},
		{"round trip", p.tryRoundTrip},
		{"eviction", p.tryEviction},
		{"replicas", p.tryReplicas},
	}
	for done, t := range tries {
		for i := range p.servers {
			p.doing(fmt.Sprintf("checking Redis, %d of %d: %s of %s", done+1, len(tries), t.what, p.servers[i].address))
			t.try(ctx, &p.servers[i])
		}
	}
}

// clientOptions returns the configured options with at least leastTimeout.
func (p *preflight) clientOptions() dial.Connection {
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
