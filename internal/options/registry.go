// Package options reads what a configuration says of policies and handlers, in JSON and in a Caddyfile: the names of options,
// their values, bounds and defaults, and what errors say of them. A row of a table has all that is known of an option.
package options

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// DefaultPolicy is the name of a policy that has none.
const DefaultPolicy = "default"

// Identity is what all uses of a policy's name must have in common besides the settings.
type Identity struct {
	rule.Prefixes
	LimitFrom, BurstFrom, DayFrom string
	Unlimited                     bool
	Challenge                     rule.Challenge
}

// Registry has the policies of one configuration by name.
type Registry map[string]Registered

// Registered is a policy that was made of its settings, once for all handlers that name it, with what is kept of it.
type Registered struct {
	Policy   *limiter.Policy
	Identity Identity
	at       string // its first line in the Caddyfile, behind a space; empty: unknown
	Counters *storepool.PolicyStats
	CountIf  *storepool.CountIfWatch // of all handlers with the policy
	Once     *PolicyOnce             // of all handlers with the policy
	Variants *rule.Variants
}

// PolicyOnce is what is told once of a policy.
type PolicyOnce struct{ Unreadable sync.Once }

// Register returns the one policy of a name, which allows refunds if one of its handlers needs them. A name with two
// settings is an error that shows both, and where each is.
func (r Registry) Register(s limiter.Settings, id Identity, at string) (Registered, error) {
	known, found := r[s.Name]
	if found {
		others := known.Policy.Settings
		refunds := others.Refunds
		if others.Refunds = s.Refunds; !others.Equal(s) || known.Identity != id {
			return known, ambiguity(known, s, id, at)
		}
		if refunds || !s.Refunds {
			return known, nil
		}
	} else {
		known.Identity, known.at = id, at
	}
	policy, err := limiter.NewPolicy(s)
	if err != nil {
		return known, fmt.Errorf("policy %q: %w", s.Name, NameFields(err))
	}
	known.Policy, known.Variants = policy, rule.NewVariants(policy)
	r[s.Name] = known
	return known, nil
}

// AmbiguityError says that a name has other settings elsewhere, and in a Caddyfile both places.
type AmbiguityError string

func (e AmbiguityError) Error() string { return string(e) }

// ambiguity returns the error of a name that has other settings elsewhere.
func ambiguity(known Registered, s limiter.Settings, id Identity, at string) AmbiguityError {
	wrong, fix := " has two meanings", "handlers that share a name share its counts, so make the settings equal or choose another name"
	if s.Name == DefaultPolicy {
		wrong, fix = ": two limits without a name of their own differ", "give each a name in its block, such as name login"
	}
	advice := "where labels of containers bring them, as an old and a new one do in a rolling update, " +
		"write the policy as a snippet of a file and import it by label"
	if at == "" { // in JSON
		advice = fmt.Sprintf("by Caddy's admin API change all in one request: GET /config/apps/http, write the same into each policy %q, "+
			"and PATCH /config/apps/http with that", s.Name)
	}
	return AmbiguityError(fmt.Sprintf("policy %q%s: (%s)%s and (%s)%s; %s; %s", s.Name, wrong,
		describe(known.Policy.Settings, known.Identity), known.at, describe(s, id), at, fix, advice))
}

// maxNames is how many names an error lists.
const maxNames = 10

// Names lists the names in a sentence for errors about an unknown name.
func (r Registry) Names() string { return listNames(slices.Sorted(maps.Keys(r))) }

// listNames says which policies there are, by their sorted names.
func listNames(names []string) string {
	if len(names) == 0 {
		return "there are no policies"
	}
	rest := ""
	if more := len(names) - maxNames; more > 0 {
		names, rest = names[:maxNames], " and "+strconv.Itoa(more)+" more"
	}
	return "there are: " + strings.Join(names, ", ") + rest
}

// Counters are those of the policies that count.
func (r Registry) Counters() (used []*storepool.PolicyStats) {
	for _, p := range r {
		if p.Counters != nil {
			used = append(used, p.Counters)
		}
	}
	return used
}

func describe(s limiter.Settings, id Identity) string {
	settings := s.String()
	if id.Unlimited {
		settings = strings.Replace(settings, " 1,", " "+rule.WordUnlimited+",", 1) // the first of the numbers
	}
	text := fmt.Sprintf("%s, ipv4_prefix %d, ipv6_prefix %d", settings, id.IPv4, id.IPv6)
	if id.LimitFrom != "" {
		text += ", limit from " + id.LimitFrom
	}
	if id.BurstFrom != "" {
		text += ", burst from " + id.BurstFrom
	}
	if id.DayFrom != "" {
		text += ", months from " + id.DayFrom
	}
	if id.Challenge != (rule.Challenge{}) {
		text += ", challenge " + id.Challenge.String()
	}
	return text
}
