package rule

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
)

// Placeholder is what a key is made of, or where a number comes from. [ParsePlaceholder] makes one; the zero
// value is none.
type Placeholder struct {
	// Name is without braces.
	Name string

	field   field
	empties *atomic.Int32 // requests in which it was empty, as long as it was in all; then below 0. Nil: not counted
}

// ParsePlaceholder reads the placeholder that an option's number comes from.
func ParsePlaceholder(option, text string) (Placeholder, error) {
	if text == "" {
		return Placeholder{}, nil
	}
	name, opened := strings.CutPrefix(text, "{")
	name, closed := strings.CutSuffix(name, "}")
	if !opened || !closed || name == "" || strings.ContainsAny(name, "{}") {
		return Placeholder{}, fmt.Errorf("%s %s: use one placeholder such as {http.vars.plan_limit}", option, text)
	}
	return newPlaceholder(option, name)
}

// newPlaceholder returns the placeholder of a name. Any name may be one that map or vars sets, but those that
// Caddy replaces in a Caddyfile and those that are meant for one of them.
func newPlaceholder(option, name string) (Placeholder, error) {
	p := Placeholder{name, fieldOf(name), new(atomic.Int32)}
	if full := fullName(name); full != "" {
		return p, fmt.Errorf("%s: {%s} is of the Caddyfile; in JSON write {%s}", option, name, full)
	}
	if letters := lettersOf(name); letters == "remoteip" || letters == "http.request.remoteip" {
		return p, fmt.Errorf("%s: Caddy has no placeholder {%s}; write {client_ip}, or {remote_host} for the address of the connection. In JSON they are {%s} and {%s}", option, name, clientIPName, remoteHostName)
	}
	if short := misspeltShorthand(name); short != "" {
		return p, fmt.Errorf("%s: Caddy has no placeholder {%s}; did you mean {%s}? In JSON it is {%s}", option, name, short, fullName(short))
	}
	return p, nil
}

// The names that Caddy replaces by full ones in a Caddyfile, and those that it replaces in front of a dot.
var (
	shorthands = strings.Fields(`host hostport port orig_method orig_uri orig_path orig_dir orig_file orig_query orig_?query
		method uri %uri path %path dir file query %query ?query remote remote_host remote_port scheme uuid tls_cipher
		tls_version tls_client_fingerprint tls_client_issuer tls_client_serial tls_client_subject
		tls_client_certificate_pem tls_client_certificate_der_base64 upstream_hostport client_ip`)
	dottedShorthands = strings.Fields("header cookie labels path query re vars rp resp err file_match")
)

var replaceShorthands = sync.OnceValue(httpcaddyfile.NewShorthandReplacer)

// fullName returns what Caddy replaces a name of the Caddyfile by; empty for any other name.
func fullName(name string) string {
	short, rest, dotted := strings.Cut(name, ".")
	if dotted && !slices.Contains(dottedShorthands, short) {
		return ""
	}
	const some = "x" // Caddy takes fewer characters than a name may have
	if dotted {
		short += "." + some
	}
	segment := caddyfile.Segment{{Text: "{" + short + "}"}}
	replaceShorthands().ApplyToSegment(&segment)
	full := strings.Trim(segment[0].Text, "{}")
	switch {
	case full == short:
		return ""
	case dotted:
		return strings.TrimSuffix(full, some) + rest
	}
	return full
}

// misspeltShorthand returns the name of the Caddyfile that another one, which is none, differs from in case, '_'
// and '-' alone.
func misspeltShorthand(name string) string {
	short, rest, dotted := strings.Cut(name, ".")
	known := shorthands
	if dotted {
		known, rest = dottedShorthands, "."+rest
	}
	for _, candidate := range known {
		if lettersOf(candidate) == lettersOf(short) {
			return candidate + rest
		}
	}
	return ""
}

// lettersOf returns a name without case, '_' and '-'.
func lettersOf(name string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))
}

// firstRequests is in how many requests a placeholder is empty before its name is suspected.
const firstRequests = 100

// saw records the value that a request has.
func (p *Placeholder) saw(value string) {
	if p.empties == nil || p.empties.Load() < 0 {
		return
	}
	if value == "" {
		p.empties.Add(1)
	} else {
		p.empties.Store(math.MinInt32)
	}
}

// isSuspect reports, once, that the first requests had no value.
func (p *Placeholder) isSuspect() bool {
	if p.empties == nil {
		return false
	}
	n := p.empties.Load()
	return n >= firstRequests && p.empties.CompareAndSwap(n, math.MinInt32)
}

// suspect warns of a placeholder that was empty in all of the first requests.
func (s *Set) suspect(rule *Rule, option string, p *Placeholder) {
	if p.isSuspect() && s.OnNeverSet != nil {
		s.OnNeverSet(rule, option, p.Name)
	}
}
