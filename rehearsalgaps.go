package redisratelimit

import (
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

// redactedText is what Caddy writes in its logs in place of what may be a secret.
const redactedText = "REDACTED"

// missingData counts requests of which the log does not tell what the configuration asks for.
type missingData struct {
	hostless, unmet  int64 // those without a host, and of them those that met no policy
	unanswered       int64 // those without headers of the response
	redactedKeys     []int64
	redactedMatchers []int64
	files            bool // some were looked for

	triedKey                  string // as it was written
	triedEmpty, triedRedacted int64

	responseAsked, responseKnown bool // of the request that is being played
}

// see counts a request that was played.
func (m *missingData) see(e *accesslog.Entry, v *replay.Verdict, a *matcherInputs) {
	if e.Host == "" {
		m.hostless++
		if v.Outcome == replay.Unlimited {
			m.unmet++
		}
	}
	if m.responseAsked && !m.responseKnown {
		m.unanswered++
	}
	m.responseAsked = false
	for i, name := range a.headers {
		if i == len(m.redactedMatchers) {
			m.redactedMatchers = append(m.redactedMatchers, 0)
		}
		if slices.Contains(e.Header[name], redactedText) {
			m.redactedMatchers[i]++
		}
	}
}

// isRedacted tells whether a log hides what a request's key is made of. Headers, users and addresses are
// not looked at, because the log's own summary tells of them.
func (t *keyTemplate) isRedacted(r *http.Request, repl *caddy.Replacer) bool {
	for i := range t.parts {
		part := &t.parts[i]
		if part.placeholder == "" || part.address || strings.HasPrefix(part.placeholder, "http.request.") || strings.HasPrefix(part.placeholder, userPrefix) {
			continue
		}
		if strings.Contains(t.value(part, r, repl), redactedText) {
			return true
		}
	}
	return false
}

// Warnings implements [replay.Engine].
func (r *simulation) Warnings() (sentences []string) {
	g := &r.missing
	warn := func(requests int64, format string, values ...any) {
		if requests > 0 {
			sentences = append(sentences, fmt.Sprintf(format+": %d", append(values, requests)...))
		}
	}
	switch {
	case r.hostNamed:
	case r.host != "":
		warn(g.hostless, "requests without a host in the log, played as for %s, the only one that limits are for; --host names another", shown(r.host))
	case len(r.inputs.hosts) > 0:
		warn(g.unmet, "requests without a host in the log that met no policy; name theirs with --host, as there are limits for certain hosts such as %s", shown(r.inputs.hosts[0]))
	}
	for i, requests := range g.redactedKeys {
		warn(requests, "policy %s: requests whose key %s is made of a redacted value, so that they count as one client", r.policies[i].Name, shown(r.policies[i].Key))
	}
	warn(g.triedRedacted, "requests whose key %s is made of a redacted value, so that limits are suggested as if they were one client's", shown(g.triedKey))
	warn(g.triedEmpty, "requests whose key %s is empty in the log; limits are suggested as if their address were it", shown(g.triedKey))
	for i, requests := range g.redactedMatchers {
		warn(requests, "requests whose header %s is redacted, although a matcher asks for its value; they may meet other policies than these", shown(r.inputs.headers[i]))
	}
	warn(g.unanswered, "requests without headers of the response in the log, although count_if or charge asks for them")
	if g.files {
		sentences = append(sentences, "the configuration looks for files of the site, as try_files, php_fastcgi and file matchers do; none was looked for here, and all were taken as missing")
	}
	return sentences
}

// shown is a text of the configuration as part of a sentence.
func shown(text string) string { return accesslog.Printable(text, 80) }

// noFiles is what matchers see of the files of a site: none, as they need not be on this machine.
type noFiles struct{ gaps *missingData }

// Open implements [fs.FS].
func (f noFiles) Open(name string) (fs.File, error) {
	f.gaps.files = true
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}
