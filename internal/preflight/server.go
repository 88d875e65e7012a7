package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/humanize"
)

// tryVersion wants the commands and the scripts' language of Redis 6.2.
func (p *preflight) tryVersion(_ context.Context, s *checkedServer) {
	var major, minor int
	if _, err := fmt.Sscanf(s.hello.version, "%d.%d", &major, &minor); err != nil {
		p.warn("version", s.address, "unknown: the server does not tell", "make sure that it is as able as Redis 6.2")
		return
	}
	name := s.hello.version
	if s.hello.server != "" && s.hello.server != "redis" {
		name = s.hello.server + " " + name
	} else if major < 6 || (major == 6 && minor < 2) {
		p.failed("version", s.address, name+" is too old", "install Redis 6.2 or later")
		return
	}
	p.ok("version", s.address, name)
}

// tryRole wants a master.
func (p *preflight) tryRole(_ context.Context, s *checkedServer) {
	switch s.hello.role {
	case "master":
		p.ok("writable", s.address, "a master")
	case "":
		p.warn("writable", s.address, "unknown: the server does not tell its role", "see what the check of the script says")
	default:
		p.failed("writable", s.address, "a "+s.hello.role+", which refuses to count", "name its master's address, or use mode sentinel, which finds it")
	}
}

// pings is how many round trips are measured, within pingBudget.
const (
	pings      = 50
	pingBudget = 5 * time.Second
)

// tryRoundTrip measures PINGs. Each request that is limited takes such a round trip.
func (p *preflight) tryRoundTrip(ctx context.Context, s *checkedServer) {
	var took []time.Duration
	_ = s.client.Ping(ctx).Err() // connects; the others tell
	for begin := time.Now(); len(took) < pings && time.Since(begin) < pingBudget; {
		sent := time.Now()
		if err := s.client.Ping(ctx).Err(); err != nil {
			p.failed("round trip", s.address, err.Error(), "see the checks before")
			return
		}
		took = append(took, time.Since(sent))
	}
	slices.Sort(took)
	median, worst, timeout := took[len(took)/2], took[len(took)-1], p.options.Client.Timeout
	detail := fmt.Sprintf("median %s, worst %s of %d; the timeout is %s", humanize.Duration(median), humanize.Duration(worst), len(took), humanize.Duration(timeout))
	if timeout < 3*worst {
		p.warn("round trip", s.address, detail, "set timeout to "+humanize.Duration((3*worst).Round(10*time.Millisecond)+10*time.Millisecond)+
			" or more, else busy moments are decided without Redis")
		return
	}
	p.ok("round trip", s.address, detail)
}

// clockSlack is how different clocks may be to count as equal.
const clockSlack = 100 * time.Millisecond

// tryClock compares Redis's clock with this machine's. Nothing depends on it.
func (p *preflight) tryClock(ctx context.Context, s *checkedServer) {
	sent := time.Now()
	there, err := s.client.Time(ctx).Result()
	if err != nil {
		return // permissions, or script, has told
	}
	here := sent.Add(time.Since(sent) / 2)
	const why = "; counting takes Redis's clock alone"
	switch off := there.Sub(here); {
	case off.Abs() <= clockSlack:
		p.ok("clock", s.address, "as this machine's")
	case off > 0:
		p.ok("clock", s.address, humanize.Duration(off)+" ahead of this machine's"+why)
	default:
		p.ok("clock", s.address, humanize.Duration(-off)+" behind this machine's"+why)
	}
}

// tryEviction wants no key dropped, because an evicted key is a fresh share.
func (p *preflight) tryEviction(ctx context.Context, s *checkedServer) {
	const check = "eviction"
	switch policy, err := evictionPolicy(ctx, s.client); {
	case isForbidden(err):
		p.ok(check, s.address, "unknown: the user may run neither CONFIG GET nor INFO")
	case err != nil:
		p.warn(check, s.address, "unknown: "+err.Error(), "make sure in Redis that maxmemory-policy is noeviction")
	case policy == "":
		p.ok(check, s.address, "unknown: the server does not tell")
	case policy == "noeviction":
		p.ok(check, s.address, policy)
	default:
		p.warn(check, s.address, "maxmemory-policy "+policy, "in Redis: maxmemory-policy noeviction; an evicted key is a fresh share for its client")
	}
}

// evictionPolicy is the server's maxmemory-policy; empty where it does not tell.
func evictionPolicy(ctx context.Context, client *redis.Client) (string, error) {
	if values, err := client.ConfigGet(ctx, "maxmemory-policy").Result(); err == nil {
		return values["maxmemory-policy"], nil
	}
	info, err := client.Info(ctx, "memory").Result()
	for line := range strings.Lines(info) {
		if policy, found := strings.CutPrefix(strings.TrimSpace(line), "maxmemory_policy:"); found {
			return policy, nil
		}
	}
	return "", err
}

// tryIdleTimeout wants connections kept, where the user may know. Of one that is kept nothing is said.
func (p *preflight) tryIdleTimeout(ctx context.Context, s *checkedServer) {
	values, err := s.client.ConfigGet(ctx, "timeout").Result()
	if seconds := values["timeout"]; err == nil && seconds != "" && seconds != "0" {
		p.warn("idle timeout", s.address, "Redis closes connections that are idle for "+seconds+" s",
			"in Redis: timeout 0; else requests after a pause wait for new connections")
	}
}
