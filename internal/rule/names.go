package rule

import (
	"slices"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyplan"
)

// The full names of a client's addresses.
const (
	clientIPName   = "http.vars.client_ip"
	remoteHostName = "http.request.remote.host"
)

// The shorthands of a Caddyfile, which Caddy replaces by full names, and those that are followed by a dot and a name.
var (
	shorthands = strings.Fields(`host hostport port orig_method orig_uri orig_path orig_dir orig_file orig_query orig_?query
		method uri %uri path %path dir file query %query ?query remote remote_host remote_port scheme uuid tls_cipher
		tls_version tls_client_fingerprint tls_client_issuer tls_client_serial tls_client_subject
		tls_client_certificate_pem tls_client_certificate_der_base64 upstream_hostport client_ip`)
	dottedShorthands = append(strings.Fields("header cookie labels path query re vars rp resp err file_match"), bodyShorthands...)
	bodyShorthands   = []string{"json", "form"} // of this module, inside of its directive
)

var replaceShorthands = sync.OnceValue(httpcaddyfile.NewShorthandReplacer)

// fullName returns the name that Caddy replaces a shorthand of the Caddyfile by; empty for any other name.
func fullName(name string) string {
	short, rest, dotted := strings.Cut(name, ".")
	if dotted && slices.Contains(bodyShorthands, short) {
		return bodyplan.Prefix + name
	}
	if dotted && !slices.Contains(dottedShorthands, short) {
		return ""
	}
	const some = "x" // in place of the rest, which may have characters that Caddy's replacer does not accept
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

// fullNames are the full names of the shorthands, in the order of the shorthands.
var fullNames = sync.OnceValue(func() (full []string) {
	for _, short := range shorthands {
		full = append(full, fullName(short))
	}
	return full
})

// lettersOf returns a name in lower case without '_', '-' and '.'.
func lettersOf(name string) string {
	return strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(name))
}

// shortNames replaces full names by shorthands.
var shortNames = sync.OnceValue(func() *strings.Replacer {
	var pairs []string
	for i, short := range shorthands {
		if full := fullNames()[i]; full != "" && strings.Trim(short, "abcdefghijklmnopqrstuvwxyz_") == "" {
			pairs = append(pairs, "{"+full+"}", "{"+short+"}")
		}
	}
	for _, short := range dottedShorthands {
		pairs = append(pairs, "{"+strings.TrimSuffix(fullName(short+".x"), "x"), "{"+short+".")
	}
	return strings.NewReplacer(pairs...)
})

// ShortNames returns a text with shorthands of the Caddyfile in place of full names.
func ShortNames(text string) string { return shortNames().Replace(text) }
