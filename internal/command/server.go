package command

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

// newerServer is the advice for a server that cannot run the scripts.
const newerServer = "install Redis 6.0 or later, or Valkey; docs/redis.md lists the servers that were tested"

// tryVersion requires Redis 6.0, which SET has KEEPTTL since. Servers that are none of Redis, such as Valkey,
// have version numbers of their own: the check of the script decides.
func (p *preflight) tryVersion(_ context.Context, s *checkedServer) {
	var major int
	if _, err := fmt.Sscanf(s.hello["version"], "%d.", &major); err != nil {
		p.warn("version", s.address, "unknown: the server does not report it", "see the check of the script")
		return
	}
	name := serverName(s.hello["server"]) + " " + s.hello["version"]
	if isRedis := s.hello["server"] == "" || s.hello["server"] == "redis"; isRedis && major < 6 {
		p.failed("version", s.address, name+" is too old", newerServer)
		s.scriptAdvice = "see the check of the version"
		return
	}
	p.ok("version", s.address, name)
}

// serverName is what people call a server that names itself so in its reply to HELLO; one that does not is a Redis.
func serverName(name string) string {
	switch name {
	case "", "redis":
		return "Redis"
	case "valkey":
		return "Valkey"
	}
	return name
}

// tryRole requires a master.
func (p *preflight) tryRole(_ context.Context, s *checkedServer) {
	switch s.hello["role"] {
	case "master":
		p.ok("writable", s.address, "a master")
	case "":
		p.warn("writable", s.address, "unknown: the server does not report its role", "see the check of the script")
	default:
		p.failed("writable", s.address, "a "+s.hello["role"]+", which refuses to count",
			"set the address of its master, or use mode sentinel, which finds it")
	}
}

// pings is how many round trips are measured, within pingBudget.
const (
	pings      = 50
	pingBudget = 5 * time.Second
)

// tryRoundTrip measures PINGs. Each limited request takes such a round trip.
func (p *preflight) tryRoundTrip(ctx context.Context, s *checkedServer) {
	var took []time.Duration
	_ = s.client.Ping(ctx).Err() // connects, so that the others measure a round trip
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
	detail := fmt.Sprintf("median %s, worst %s of %d; the timeout is %s", display.Duration(median), display.Duration(worst),
		len(took), display.Duration(timeout))
	if timeout < 3*worst {
		p.warn("round trip", s.address, detail, "set timeout to "+display.Duration((3*worst).Round(10*time.Millisecond)+10*time.Millisecond)+
			" or more; otherwise slow answers are decided without Redis")
		return
	}
	p.ok("round trip", s.address, detail)
}

// tryEviction requires noeviction: the client of an evicted key has a full quota again.
func (p *preflight) tryEviction(ctx context.Context, s *checkedServer) {
	const check = "eviction"
	switch policy, err := evictionPolicy(ctx, s.client); {
	case isForbidden(err):
		p.ok(check, s.address, "unknown: the user may run neither CONFIG GET nor INFO")
	case err != nil:
		p.warn(check, s.address, "unknown: "+err.Error(), "make sure in Redis that maxmemory-policy is noeviction")
	case policy == "":
		p.ok(check, s.address, "unknown: the server does not report it")
	case policy == "noeviction":
		p.ok(check, s.address, policy)
	default:
		p.warn(check, s.address, "maxmemory-policy "+policy, "in Redis: maxmemory-policy noeviction; the client of an evicted key has a "+
			"full quota again")
	}
}

// evictionPolicy returns the server's maxmemory-policy; empty if the server does not report it.
func evictionPolicy(ctx context.Context, client goredis.UniversalClient) (string, error) {
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

// tryReplicas warns of a min-replicas-to-write that scripts do not obey: Redis before 7.0 refuses other writes alone.
// Of a server whose version is unknown the proof is a write that is refused where a script's is not.
func (p *preflight) tryReplicas(ctx context.Context, s *checkedServer) {
	const check = "replicas"
	var major int
	_, unknown := fmt.Sscanf(s.hello["version"], "%d.", &major)
	named := s.hello["server"] != "" && s.hello["server"] != "redis" // such as Valkey, with versions of its own
	if unknown == nil && (major >= 7 || named) || unknown != nil && !s.decides {
		return
	}
	switch needed, err := p.needsReplicas(ctx, s.client); {
	case needed:
		p.warn(check, s.address, "min-replicas-to-write is set, but scripts of Redis before 7.0 write without replicas all the same",
			"install Redis 7.0 or later; otherwise a failover loses what no replica has")
	case unknown != nil:
	case isForbidden(err):
		p.ok(check, s.address, "unknown: the user may run neither CONFIG GET nor INFO; "+
			"scripts of Redis before 7.0 do not obey min-replicas-to-write")
	case err != nil:
		p.warn(check, s.address, "unknown: "+err.Error(), checkAgain)
	}
}

// needsReplicas reports whether a server refuses writes without replicas: it refuses one, or its settings say that it
// would. The error is that of reading them.
func (p *preflight) needsReplicas(ctx context.Context, client goredis.UniversalClient) (bool, error) {
	if goredis.HasErrorPrefix(client.Set(ctx, p.prefixed(probeKey), "1", 5*time.Second).Err(), "NOREPLICAS") {
		return true, nil
	}
	if values, err := client.ConfigGet(ctx, "min-replicas-*").Result(); err == nil {
		number, lag := values["min-replicas-to-write"], values["min-replicas-max-lag"]
		return number != "" && number != "0" && lag != "0", nil
	}
	info, err := client.Info(ctx, "replication").Result()
	return strings.Contains(info, "\nmin_slaves_good_slaves:"), err // Redis reports it if the setting is in force
}
