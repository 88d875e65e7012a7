package caddytest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// WriteCaddyfile writes a Caddyfile to a folder of its own and returns its path.
func WriteCaddyfile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "Caddyfile")
	assert.Must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// Config returns a Caddyfile of global options and one site, on the ports that [Start] sets. A block of either may stand
// in one line, as Caddy itself does not allow: "policy api { limit 2; window 24h }".
func Config(global, site string) string {
	return "{\n\tadmin {$ADMIN}\n\tauto_https off\n\tdefault_bind 127.0.0.1\n\tgrace_period 1s\n\tlog {\n\t\tlevel DEBUG\n\t}\n" +
		unfolded.Replace(global) + "\n}\n\n:{$PORT} {\n" + unfolded.Replace(site) + "\n}\n"
}

// unfolded gives each line of a block a line of its own.
var unfolded = strings.NewReplacer(" { ", " {\n", "; ", "\n", " }", "\n}\n")

// Quietly turns off the log of denials in a Caddyfile of [Config], which would slow a flood.
func Quietly(text string) string { return strings.Replace(text, "level DEBUG", "level INFO", 1) }

// ShowDecision ends a site: every body is the decision and its source.
const ShowDecision = `
	respond "{http.redis_ratelimit.decision} {http.redis_ratelimit.source}"
	handle_errors {
		respond "{http.redis_ratelimit.decision} {http.redis_ratelimit.source}"
	}`

// LimitedSite is the text of a site whose policy api admits two requests a day of a client key.
const LimitedSite = "redis_ratelimit {header.X-Key} 2 24h {\nname api\n}\n" + ShowDecision

// ConfigWithSites returns a Caddyfile of global options, snippets and sites on the ports that [Start] sets.
func ConfigWithSites(global, rest string) string {
	options, _, _ := strings.Cut(Config(global, ""), "\n\n:{$PORT}")
	return options + "\n\n" + unfolded.Replace(rest)
}

// WithPorts replaces {$PORT} and {$ADMIN} in a text by the ports of a node.
func WithPorts(n *Node, text string) string {
	_, port, _ := strings.Cut(strings.TrimPrefix(n.URL, "http://"), ":")
	return strings.NewReplacer("{$PORT}", port, "{$ADMIN}", strings.TrimPrefix(n.Admin, "http://")).Replace(text)
}
