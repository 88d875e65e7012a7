package simulate_test

import (
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

// warnsOf plays a log and wants one warning with a word: a part of its text and the number at its end, divided by a colon. Of
// an empty text it wants none.
func warnsOf(t *testing.T, caddyfile, log, word, want string) {
	t.Helper()
	result := play(t, caddyfile, accesslog.ReaderOptions{Files: []string{"-"}, Stdin: strings.NewReader(log)})
	var got []string
	for _, sentence := range result.Warnings {
		if strings.Contains(sentence, word) {
			got = append(got, sentence)
		}
	}
	if want == "" {
		assert.ErrorIf(t, len(got) > 0, "warnings %q, want none", got)
		return
	}
	text, count, _ := strings.Cut(want, ":")
	assert.ErrorIf(t, len(got) != 1 || !strings.Contains(got[0], text) || !strings.HasSuffix(got[0], ": "+count), "warnings %q, want %q", got, want)
}

// TestReplay_warns_of_headers_that_a_log_lacks has matchers, which would otherwise meet no request in silence.
func TestReplay_warns_of_headers_that_a_log_lacks(t *testing.T) {
	const (
		common   = "192.0.2.1 - - [15/Jun/2025:15:06:40 +0000] \"GET / HTTP/1.1\" 200 5\n"
		combined = "192.0.2.1 - - [15/Jun/2025:15:06:40 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"-\"\n"
		traefik  = "192.0.2.1 - - [15/Jun/2025:15:06:40 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"-\" 1 \"web@docker\" \"http://192.0.2.9\" 5ms\n"
		request  = `{"ts":1750000000.5,"logger":"http.log.access","request":{"client_ip":"192.0.2.1","method":"GET","uri":"/","headers":{"Accept":["*/*"]}},`
		caddy    = request + `"bytes_read":0,"status":200,"size":5,"resp_headers":{}}` + "\n"
		nginx    = request + `"status":200,"size":5}` + "\n" // as docs/replay.md has nginx write
		agent    = "@a header User-Agent *bot*"
	)
	for _, test := range []struct{ name, matcher, log, want string }{
		{"common", agent, common + common, "User-Agent the log does not tell:2"},
		{"combined", agent, combined, ""},
		{"combined and another header", "@a header X-Api-Key secret", combined, "X-Api-Key the log does not tell:1"},
		{"Traefik, without headers by default", agent, traefik, "User-Agent the log does not tell:1"},
		{"Traefik, with them", agent, strings.Replace(traefik, `"-" 1`, `"curl/8" 1`, 1), ""},
		{"Caddy, which logs all", agent, caddy, ""},
		{"Caddy, whose filter deletes them", agent, strings.Replace(caddy, `,"headers":{"Accept":["*/*"]}`, "", 1), "User-Agent the log does not tell:1"},
		{"written as Caddy's", agent, nginx, "User-Agent the log does not tell:1"},
		{"written as Caddy's, with that one", "@a header Accept text/*", nginx, ""},
		{"presence", "@a header X-Api-Key *", common, "X-Api-Key the log does not tell:1"},
		{"absence", "@a header !X-Api-Key", common, "X-Api-Key the log does not tell:1"},
		{"negated, by a pattern", "@a not header_regexp X-Api-Key ^s", common, "X-Api-Key the log does not tell:1"},
		{"an expression", "@a `{header.x-api-key} == 's'`", common, "X-Api-Key the log does not tell:1"},
		{"the host, which is none", "@a header Host a", common, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			site := ":8080 {\n\t" + test.matcher + "\n\tredis_ratelimit @a {client_ip} 5 10s\n\trespond ok\n}\n"
			warnsOf(t, site, test.log, "whose header", test.want)
		})
	}
}

// TestReplay_warns_of_crawlers plays requests that claim a crawler without asking a resolver.
func TestReplay_warns_of_crawlers(t *testing.T) {
	const (
		crawlers = "{\n\tredis_ratelimit {\n\t\tcrawlers {\n\t\t\tgoogle\n\t\t\tresolver 127.0.0.1:1\n\t\t}\n\t}\n}\n"
		site     = ":8080 {\n\tredis_ratelimit {client_ip} 5 10s {\n\t\texempt crawler google\n\t}\n\tredis_ratelimit {http.redis_ratelimit.crawler_claim} 5 10s {\n\t\tname claims\n\t\ton_empty_key skip\n\t}\n}\n"
		line     = "66.249.66.1 - - [15/Jun/2025:15:06:40 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \""
	)
	log := line + "Googlebot/2.1\"\n" + line + "Firefox/145.0\"\n" + line + "Googlebot-Image\"\n"
	warnsOf(t, crawlers+site, log, "crawler", "requests that claim a crawler, played as unknown, since no resolver is told the addresses of a log:2")
}

func TestReplay_warns_of_masked_clients(t *testing.T) {
	logs := func(filters ...string) string {
		var all strings.Builder
		for i, filter := range filters {
			all.WriteString("\tlog l" + string(rune('0'+i)) + " {\n\t\tformat filter {\n\t\t\twrap json\n\t\t\trequest>client_ip " + filter + "\n\t\t}\n\t}\n")
		}
		return ":8080 {\n" + all.String() + "\tredis_ratelimit {client_ip} 5 10s\n\trespond ok\n}\n"
	}
	lines := func(clients string) string {
		var all strings.Builder
		for client := range strings.FieldsSeq(clients) {
			all.WriteString(`{"ts":1750000000.5,"request":{"client_ip":"` + client + `","method":"GET","uri":"/"},"bytes_read":0,"status":200,"size":5}` + "\n")
		}
		return all.String()
	}
	for _, test := range []struct{ name, site, clients, want string }{
		{"networks", logs("ip_mask 24 64"), "192.0.2.0 198.51.100.0 2001:db8::", "ip_mask 24 64:3"},
		{"addresses", logs("ip_mask 24 64"), "192.0.2.0 198.51.100.7 2001:db8::", ""},
		{"addresses of the other family", logs("ip_mask 24 64"), "192.0.2.0 2001:db8::1", ""},
		{"whole addresses of one family", logs("ip_mask 32 48"), "192.0.2.1 2001:db8::", "ip_mask 32 48:1"},
		{"no address", logs("ip_mask 24 64"), "host.example", ""},
		{"another filter", logs("hash"), "192.0.2.0", ""},
		{"none", nasaSite("5 10s", "token_bucket"), "192.0.2.0", ""},
		{"the filter of one log of two", logs("hash", "ip_mask 16 32"), "192.0.0.0", "ip_mask 16 32:1"},
		{"the same filter twice", logs("ip_mask 16 32", "ip_mask 16 32"), "192.0.0.0", "ip_mask 16 32:1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			warnsOf(t, test.site, lines(test.clients), "masked", test.want)
		})
	}
}
