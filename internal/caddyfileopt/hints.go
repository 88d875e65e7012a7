package caddyfileopt

import (
	"slices"
	"strings"
)

// hintTexts say what to write in place of words that are no options here, but are in mholt's caddy-ratelimit, Traefik,
// nginx, Envoy, HAProxy and others, or in this module's JSON. Each text is followed by its words.
var hintTexts = [][2]string{
	{"here it is a policy: policy <name> { ... }",
		"zone zones limit_req limit_req_zone rate_limit rateLimit descriptors " +
			"http_req_rate stick-table track-sc0"},
	{"write limit, such as limit 100", "events max_events max_requests requests average requests_per_unit tokens_per_fill max count"},
	{"write limit and window, such as limit 10 and window 1s", "rate rps per_second per_minute per_hour second minute hour"},
	{"the time zone stands behind the window: window month Europe/Berlin", "time_zone timezone"},
	{"write window, such as window 1m", "period unit interval duration window_size windowMs fill_interval expire"},
	{"write burst, with algorithm token_bucket", "max_tokens bucket_size capacity"},
	{"write algorithm in front, such as algorithm token_bucket",
		"sliding_window sliding_log fixed_window token_bucket leaky_bucket " +
			"gcra strategy"},
	{"no request is held without max_delay, such as max_delay 2s", "delay nodelay"},
	{"write max_concurrent, such as max_concurrent 20", "concurrency limit_conn limit_conn_zone conn_cur inFlightReq amount max_conn"},
	{"write wait, such as wait 30s 100, beside max_concurrent", "queue maxqueue max_queue timeout_queue queue_timeout queue_size"},
	{"write key, such as key {client_ip}", "by limit_by sourceCriterion client"},
	{"write exempt, such as exempt private_ranges", "whitelist allowlist allow ignore skip bypass"},
	{"write match, such as match path /api/*", "path paths matcher"},
	{"write status, such as status 503", "limit_req_status deny_status status_code reject_status"},
	{"a denial gets its body by handle_errors, or by answer, such as answer json", "message response respond error_message"},
	{"write answer problem", "problem_details"},
	{"answer auto, the default, knows gRPC's calls; with answer text these are refused as any other request", "grpc"},
	{"write body, such as body 1MiB 10s", "max_size max_body_size body_size"},
	{"write retry_jitter, such as retry_jitter 5s", "jitter"},
	{"write log_keys", "log_key"},
	{"write dry_run", "limit_req_dry_run shadow_mode shadow report_only"},
	{"write fail_mode closed, open or local", "failure_mode_deny fault_tolerant fail_open fail_closed allow_on_error"},
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
func hint(word string) string {
	for _, h := range hintTexts {
		if slices.Contains(strings.Fields(h[1]), word) {
			return h[0]
		}
	}
	return ""
}
