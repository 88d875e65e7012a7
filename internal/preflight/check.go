// Package preflight tries a Redis for what this module does there, and says what is missing. It counts under
// a policy of its own, whose keys are gone after seconds.
package preflight

import (
	"slices"
	"strconv"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// The results of a check.
const (
	OK      = "ok"
	Warning = "warning"
	Failed  = "failed"
)

// Finding is what one check found.
type Finding struct {
	// Check is what was tried, Result one of [OK], [Warning] and [Failed].
	Check  string `json:"check"`
	Result string `json:"result"`

	// Detail is what was seen, Advice what to do about it; empty where there is nothing to do.
	Detail string `json:"detail"`
	Advice string `json:"advice"`

	server string // that it was found at; "": at all
}

// Options say which Redis is tried, and how.
type Options struct {
	Client limiter.ClientOptions
	Naming limiter.KeyFormat

	// Logs tells that sliding_window_log is used, so that its commands must be permitted.
	Logs bool
}

// merged is the findings, with those that several servers have alike made one.
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
