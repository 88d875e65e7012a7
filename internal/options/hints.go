package options

import (
	"slices"
	"strings"
)

// Hint is what to write in place of words that are no options here, but are in mholt's caddy-ratelimit, Traefik, nginx,
// Envoy, HAProxy and others, or in this module's JSON.
type Hint struct {
	Advice string
	Words  []string
}

// hintTexts are hints that are not about one option of a block. Each text is followed by its words.
var hintTexts = [][2]string{
	{"here it is a policy: policy <name> { ... }",
		"zone zones limit_req limit_req_zone rate_limit rateLimit descriptors " +
			"http_req_rate stick-table track-sc0"},
	{"write limit and window, such as limit 10 and window 1s", "rate rps per_second per_minute per_hour second minute hour"},
	{"the time zone stands behind the window: window month Europe/Berlin", "time_zone timezone"},
	{"a denial gets its body by handle_errors, or by answer, such as answer json", "message response respond error_message"},
	{"answer auto, the default, knows gRPC's calls; with answer text these are refused as any other request", "grpc"},
	{"nodes share their counts through Redis: write redis <url> into the global option redis_ratelimit { ... }",
		"distributed storage store backend cluster"},
	{"leave it out: Redis decides each request", "read_interval write_interval sync_rate"},
	{"leave it out: what has expired goes by itself", "purge_age sweep_interval cleanup_interval"},
	{"write address, such as address 127.0.0.1:6379", "addr addresses host hosts endpoint endpoints servers"},
	{"write redis, such as redis redis://127.0.0.1:6379", "url redis_url redis_address"},
	{"write username", "user"},
	{"write credentials file <path>", "password_file"},
	{"write master", "master_name mastername sentinel_master"},
	{"write db", "database"},
	{"write key_prefix", "prefix"},
}

// hint returns what to write in place of a word; empty if it is unknown.
func (b Blocks) hint(word string) string {
	for _, block := range b {
		for _, h := range block.Hints {
			if slices.Contains(h.Words, word) {
				return h.Advice
			}
		}
	}
	for _, h := range hintTexts {
		if slices.Contains(strings.Fields(h[1]), word) {
			return h[0]
		}
	}
	return ""
}
