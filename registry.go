package redisratelimit

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddyfileopt"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// identity is what all uses of a policy's name must have in common besides the settings.
type identity struct {
	rule.Prefixes
	limitFrom, burstFrom, dayFrom string
	unlimited                     bool
	challenge                     rule.Challenge
}

func (p *Policy) identity() identity {
	_, limitFrom, _ := p.limit()
	return identity{p.prefixes(), limitFrom, p.BurstFrom, p.CalendarStartFrom, p.Unlimited, p.passes()}
}

// registeredPolicies holds the policies of one configuration by name.
type registeredPolicies map[string]registeredPolicy

type registeredPolicy struct {
	policy   *limiter.Policy
	identity identity
	at       string // its first line in the Caddyfile, behind a space; empty: unknown
	counters *storepool.Policy
	countIf  *storepool.CountIfWatch // of all handlers with the policy
	once     *policyOnce             // of all handlers with the policy
	variants *rule.Variants
}

// policyOnce is what is told once of a policy.
type policyOnce struct{ unreadable sync.Once }

// register returns the one policy of a name, which allows refunds if one of its handlers needs them. A name with two
// settings is an error that shows both, and where each is.
func (r registeredPolicies) register(s limiter.Settings, id identity, at string) (registeredPolicy, error) {
	known, found := r[s.Name]
	if found {
		others := known.policy.Settings
		refunds := others.Refunds
		if others.Refunds = s.Refunds; !others.Equal(s) || known.identity != id {
			return known, ambiguity(known, s, id, at)
		}
		if refunds || !s.Refunds {
			return known, nil
		}
	} else {
		known.identity, known.at = id, at
	}
	policy, err := limiter.NewPolicy(s)
	if err != nil {
		return known, fmt.Errorf("policy %q: %w", s.Name, caddyfileopt.NameFields(err))
	}
	known.policy, known.variants = policy, rule.NewVariants(policy)
	r[s.Name] = known
	return known, nil
}

// ambiguityError says that a name has other settings elsewhere, and in a Caddyfile both places.
type ambiguityError string

func (e ambiguityError) Error() string { return string(e) }

// ambiguity returns the error of a name that has other settings elsewhere.
func ambiguity(known registeredPolicy, s limiter.Settings, id identity, at string) ambiguityError {
	wrong, fix := " has two meanings", "handlers that share a name share its counts, so make the settings equal or choose another name"
	if s.Name == defaultPolicy {
		wrong, fix = ": two limits without a name of their own differ", "give each a name in its block, such as name login"
	}
	const labels = "where labels of containers bring them, as an old and a new one do in a rolling update, " +
		"write the policy as a snippet of a file and import it by label"
	return ambiguityError(fmt.Sprintf("policy %q%s: (%s)%s and (%s)%s; %s; %s", s.Name, wrong,
		describe(known.policy.Settings, known.identity), known.at, describe(s, id), at, fix, labels))
}

// maxNames is how many names an error lists.
const maxNames = 10

// names lists the names in a sentence for errors about an unknown name.
func (r registeredPolicies) names() string { return listNames(slices.Sorted(maps.Keys(r))) }

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

// counters are those of the policies that count.
func (r registeredPolicies) counters() (used []*storepool.Policy) {
	for _, p := range r {
		if p.counters != nil {
			used = append(used, p.counters)
		}
	}
	return used
}

func describe(s limiter.Settings, id identity) string {
	settings := s.String()
	if id.unlimited {
		settings = strings.Replace(settings, " 1,", " "+rule.WordUnlimited+",", 1) // the first of the numbers
	}
	text := fmt.Sprintf("%s, ipv4_prefix %d, ipv6_prefix %d", settings, id.IPv4, id.IPv6)
	if id.limitFrom != "" {
		text += ", limit from " + id.limitFrom
	}
	if id.burstFrom != "" {
		text += ", burst from " + id.burstFrom
	}
	if id.dayFrom != "" {
		text += ", months from " + id.dayFrom
	}
	if id.challenge != (rule.Challenge{}) {
		text += ", challenge " + id.challenge.String()
	}
	return text
}
