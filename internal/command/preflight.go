package command

import (
	"slices"
	"strconv"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// The results of a check.
const (
	OK      = "ok"
	Warning = "warning"
	Failed  = "failed"
)

// Configuration is the name of the check of what is configured.
const Configuration = "configuration"

// Finding is what one check found.
type Finding struct {
	// Check is the check's name, Result one of [OK], [Warning] and [Failed].
	Check  string `json:"check"`
	Result string `json:"result"`

	// Detail is what the check found, Advice what to do about it; empty if there is nothing to do.
	Detail string `json:"detail"`
	Advice string `json:"advice"`

	server string // where it was found; empty for all servers
}

// RedisTarget is the Redis that the command check tries, and how to reach it. The trials count under a policy of their own, whose keys
// expire after seconds.
type RedisTarget struct {
	Client dial.Connection
	Naming limiter.KeyFormat

	// Logs is true if sliding_window_log is used, whose commands must then be permitted.
	Logs bool

	// Challenges is true if challenge is used, whose secret must then be permitted.
	Challenges bool

	// Runs is true if max_concurrent is used, whose commands must then be permitted.
	Runs bool
}

// merged returns the findings. Equal findings of several servers become one.
func (p *preflight) merged() []Finding {
	findings := []Finding{}
	for at, f := range p.findings {
		same := func(other Finding) bool {
			return other.Check == f.Check && other.Result == f.Result && other.Detail == f.Detail && other.Advice == f.Advice
		}
		if slices.ContainsFunc(p.findings[:at], same) {
			continue
		}
		var servers []string
		for _, other := range p.findings[at:] {
			if same(other) && other.server != "" {
				servers = append(servers, other.server)
			}
		}
		switch {
		case p.masters < 2 || len(servers) == 0:
		case len(servers) == p.masters:
			f.Detail += " (all " + strconv.Itoa(len(servers)) + " masters)"
		default:
			f.Detail = strings.Join(servers, ", ") + ": " + f.Detail
		}
		findings = append(findings, f)
	}
	return findings
}
