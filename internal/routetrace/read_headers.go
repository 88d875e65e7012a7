package routetrace

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// FoldedHeader is a header whose letters count in one case in the keys of a policy.
type FoldedHeader struct{ Policy, Name string }

// warnOfHeaders warns of headers that limits go by: those that never come, and users of log-ins whose names count in one case.
func (f *flow) warnOfHeaders(s *Subject, place place) {
	for _, name := range s.Placeholders {
		if name, ok := strings.CutPrefix(name, rule.HeaderPrefix); ok {
			f.warnOfDropped(name, place)
		}
	}
	for _, header := range s.Folded {
		if names(f.front.users, header.Name) {
			f.found.add(place, fmt.Sprintf("policy %q: the key goes by the header %s, which a log-in writes, and joins Bob and bob; write raw_key",
				header.Policy, header.Name))
		}
	}
}

// warnOfDropped warns of a header that the server drops, unless a handler in front may write it.
func (f *flow) warnOfDropped(name string, place place) {
	canonical := http.CanonicalHeaderKey(name)
	if f.filter.Keeps(canonical) || f.front.unknown || f.front.has(&earlyRead{name: canonical}) {
		return
	}
	const text = "the limit reads the header %s, which never comes: Caddy drops %s; write %s"
	switch separators := slices.DeleteFunc([]string{"_", "."}, func(c string) bool { return !strings.Contains(name, c) }); {
	case len(separators) == 0:
		f.found.add(place, fmt.Sprintf(text, name, "it where expected_underscore_headers or expected_dot_headers has that name with _ or .",
			"the name that these have"))
	default:
		f.found.add(place, fmt.Sprintf(text, name, "names with "+strings.Join(separators, " and "),
			strings.NewReplacer("_", "-", ".", "-").Replace(name)+", or name it in "+expectedOption(separators)+" of the global option servers"))
	}
}

func expectedOption(separators []string) string {
	if separators[0] == "_" {
		return "expected_underscore_headers"
	}
	return "expected_dot_headers"
}
