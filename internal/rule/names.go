package rule

import (
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
)

// The full names of a client's addresses.
const (
	clientIPName   = "http.vars.client_ip"
	remoteHostName = "http.request.remote.host"
)

// The shorthands of a Caddyfile, which Caddy replaces by full names, and the shorthands that are followed by a dot and a name.
var (
	shorthands = strings.Fields(`host hostport port orig_method orig_uri orig_path orig_dir orig_file orig_query orig_?query
		method uri %uri path %path dir file query %query ?query remote remote_host remote_port scheme uuid tls_cipher
		tls_version tls_client_fingerprint tls_client_issuer tls_client_serial tls_client_subject
		tls_client_certificate_pem tls_client_certificate_der_base64 upstream_hostport client_ip credential`)
	dottedShorthands = append(strings.Fields("header cookie labels path query re vars rp resp err file_match"), ownShorthands...)
	ownShorthands    = []string{"json", "form", credentialShort} // of this module, inside of its directive
)

// fullName returns the name that Caddy replaces a shorthand of the Caddyfile by; empty for any other name.
func fullName(name string) string {
	short, rest, dotted := strings.Cut(name, ".")
	if dotted {
		if family := families()[short]; family != "" {
			return family + "." + rest
		}
		return ""
	}
	if full, known := fullByShorthand()[name]; known {
		return full
	}
	return replaced(name)
}

// replaced returns what Caddy replaces a text between braces by; empty: the text itself. Caddy runs a dozen expressions for
// that, which is too much for each key of thousands of policies.
func replaced(name string) string {
	segment := caddyfile.Segment{{Text: "{" + name + "}"}}
	replaceShorthands().ApplyToSegment(&segment)
	if full := strings.Trim(segment[0].Text, "{}"); full != name {
		return full
	}
	return ""
}

var replaceShorthands = sync.OnceValue(httpcaddyfile.NewShorthandReplacer)

// fullByShorthand has the full names of the shorthands; empty where Caddy has no full name.
var fullByShorthand = sync.OnceValue(func() map[string]string {
	full := make(map[string]string, len(shorthands))
	for _, short := range shorthands {
		full[short] = replaced(short)
	}
	full[credentialShort] = CredentialName // which is this module's
	return full
})

// families has the full names of the shorthands that are followed by a dot and a name, without these; empty where Caddy has
// none. Caddy's replacer does not accept all characters in that name, for which one that is accepted stands in.
var families = sync.OnceValue(func() map[string]string {
	full := make(map[string]string, len(dottedShorthands))
	for _, short := range dottedShorthands {
		full[short] = strings.TrimSuffix(replaced(short+".x"), ".x")
	}
	for _, short := range ownShorthands {
		full[short] = bodyvalue.PlaceholderPrefix + short
	}
	return full
})

// fullNames are the full names of the shorthands, in the order of the shorthands.
var fullNames = sync.OnceValue(func() (full []string) {
	for _, short := range shorthands {
		full = append(full, fullByShorthand()[short])
	}
	return full
})

// separators are what [lettersOf] leaves out.
var separators = strings.NewReplacer("_", "", "-", "", ".", "")

// lettersOf returns a name in lower case without '_', '-' and '.'.
func lettersOf(name string) string { return separators.Replace(strings.ToLower(name)) }

// shortNames replaces full names by shorthands.
var shortNames = sync.OnceValue(func() *strings.Replacer {
	var pairs []string
	for i, short := range shorthands {
		if full := fullNames()[i]; full != "" && strings.Trim(short, "abcdefghijklmnopqrstuvwxyz_") == "" {
			pairs = append(pairs, "{"+full+"}", "{"+short+"}")
		}
	}
	for _, short := range dottedShorthands {
		pairs = append(pairs, "{"+families()[short]+".", "{"+short+".")
	}
	return strings.NewReplacer(pairs...)
})

// ShortNames returns a text with shorthands of the Caddyfile in place of full names.
func ShortNames(text string) string { return shortNames().Replace(text) }
