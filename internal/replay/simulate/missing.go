package simulate

import (
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/crawlers"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
)

const shownText = 80 // characters of a text of the configuration in a sentence

// missingData counts requests whose log entry lacks what the configuration asks for.
type missingData struct {
	hostless, unmet int64 // those without a host, and of them those that met no policy
	unanswered      int64 // those without headers of the response
	redactedKeys    []int64
	headers         []missingHeader // that matchers ask for
	masks           []clientMask    // of the configuration's logs
	costs           []int64         // whose cost the log does not tell, by policy
	bodies          []missingBodies // of requests, by policy
	waits           []int64         // that were refused, and would wait instead, by policy
	files           bool            // some were looked for
	claims          int64           // of crawlers, of which nothing is known without the DNS
	lastClaim       int64           // the number of the last of them among those that were played

	played  int64 // requests, with the one that is being played
	hasBody bool  // that one may have had a body

	responseAsked, responseKnown bool // of the request that is being played
}

// missingHeader counts the requests whose header field the log does not have as it was.
type missingHeader struct{ redacted, untold int64 }

// missingBodies counts the requests that a policy would have asked for their bodies.
type missingBodies struct {
	options  []string // of the policy that go by bodies
	requests int64
	last     int64 // the number of the last of them among those that were played
}

// begin begins a request that is played.
func (m *missingData) begin(e *accesslog.Entry) {
	m.played++
	for i := range m.masks {
		m.masks[i].look(e.Client)
	}
	length, known := e.Header["Content-Length"]
	switch {
	case known:
		m.hasBody = !slices.Equal(length, []string{"0"})
	default:
		m.hasBody = e.Method != http.MethodGet && e.Method != http.MethodHead
	}
}

// addBody counts that a policy asks for the body of the request that is played.
func (m *missingData) addBody(policy int) {
	if b := &m.bodies[policy]; m.hasBody && b.last != m.played {
		b.requests, b.last = b.requests+1, m.played
	}
}

// addClaim counts a request that claims a crawler which the DNS alone may verify.
func (m *missingData) addClaim(i crawlers.Identity) {
	if i.Status() == crawlers.Unknown && m.lastClaim != m.played {
		m.claims, m.lastClaim = m.claims+1, m.played
	}
}

// add counts a request that was played.
func (m *missingData) add(e *accesslog.Entry, v *replay.Decision, inputs *routetrace.MatcherInputs) {
	if e.Host == "" {
		m.hostless++
		if v.Outcome == limiter.OutcomeUnlimited {
			m.unmet++
		}
	}
	if m.responseAsked && !m.responseKnown {
		m.unanswered++
	}
	m.responseAsked = false
	for i, input := range inputs.Headers {
		if i == len(m.headers) {
			m.headers = append(m.headers, missingHeader{})
		}
		switch h := &m.headers[i]; {
		case input.Value && slices.Contains(e.Header[input.Name], accesslog.Redacted):
			h.redacted++
		case !e.TellsHeader(input.Name):
			h.untold++
		}
	}
}

// Warnings implements [replay.Engine].
func (s *Simulation) Warnings() (sentences []string) {
	m := &s.missing
	warn := func(requests int64, format string, values ...any) {
		if requests > 0 {
			sentences = append(sentences, fmt.Sprintf(format+": %d", append(values, requests)...))
		}
	}
	switch {
	case s.hostGiven:
	case s.host != "":
		warn(m.hostless, "requests without a host in the log, played as for %s, the only one that limits are for; --host names another", display.EscapeShort(s.host, shownText))
	case len(s.inputs.Hosts) > 0:
		warn(m.unmet, "requests without a host in the log that met no policy; name theirs with --host, as there are limits for certain hosts such as %s", display.EscapeShort(s.inputs.Hosts[0], shownText))
	}
	for i, requests := range m.redactedKeys {
		warn(requests, "policy %s: requests whose key %s is made of a redacted value, so that they count as one client", s.policies[i].Name, display.EscapeShort(s.policies[i].Key(), shownText))
	}
	for i, b := range m.bodies {
		warn(b.requests, "policy %s: requests whose body its %s would go by, which a log lacks, so that they were played as without one", s.policies[i].Name, strings.Join(b.options, " and "))
	}
	for i, requests := range m.costs {
		warn(requests, "policy %s: requests whose cost %s, so that the fallback of cost counts, %d, after an error at least the weight", s.policies[i].Name, s.untoldText(i), s.rules[i].Cost.Fallback)
	}
	for i, requests := range m.waits {
		warn(requests, "policy %s: requests that would wait for a place, which is not played: they count as denied, although most would start later, and a log that was written with wait has the waits in its durations", s.policies[i].Name)
	}
	for i, h := range m.headers {
		name := display.EscapeShort(s.inputs.Headers[i].Name, shownText)
		warn(h.redacted, "requests whose header %s is redacted, although a matcher asks for its value; they may meet other policies than these", name)
		warn(h.untold, "requests whose header %s the log does not tell, although a matcher asks for it; they may meet other policies than these", name)
	}
	for i := range m.masks {
		warn(m.masks[i].masked, "requests whose client is masked by %s of the configuration's log; clients of one network count as one", m.masks[i].text())
	}
	warn(m.claims, "requests that claim a crawler, played as unknown, since no resolver is told the addresses of a log")
	warn(m.unanswered, "requests without headers of the response in the log, although count_if or cost asks for them")
	for i, r := range s.rules {
		if r.Opens {
			sentences = append(sentences, fmt.Sprintf("policy %s: passes of challenge are ignored, as a log hides cookies; who has waited counts as who has not, and leaves the reserve", s.policies[i].Name))
		}
		if r.Challenge.Passes > 0 {
			sentences = append(sentences, fmt.Sprintf("policy %s: passes of challenge are ignored, as a log hides cookies; who would wait counts as denied, and who has waited by the client's own quota", s.policies[i].Name))
		}
	}
	for _, server := range s.limited {
		if t := server.trust; t != nil && t.unasked != "" {
			sentences = append(sentences, fmt.Sprintf("trusted_proxies %s are not asked here: clients are those of the log", display.EscapeShort(t.unasked, shownText)))
			break
		}
	}
	if m.files {
		sentences = append(sentences, "the configuration looks for files of the site, as try_files, php_fastcgi and file matchers do; none was looked for here, and all were taken as missing")
	}
	return sentences
}

// untoldText returns why the log does not tell what a policy's requests cost.
func (s *Simulation) untoldText(policy int) string {
	if s.rules[policy].Cost.ReadsBody() {
		return "is in the response's body, which a log lacks"
	}
	return "the log does not tell"
}

// noFiles is what matchers see of the files of a site: none, as they need not be on this machine.
type noFiles struct{ missing *missingData }

// Open implements [fs.FS].
func (f noFiles) Open(name string) (fs.File, error) {
	f.missing.files = true
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}
