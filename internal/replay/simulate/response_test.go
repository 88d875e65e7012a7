package simulate_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

// answered is a log of requests of one client, a second after another, whose responses had these headers.
func answered(responses ...string) *strings.Reader {
	var log strings.Builder
	for i, header := range responses {
		fmt.Fprintf(&log, `{"ts":%d,"logger":"http.log.access","request":{"client_ip":"192.0.2.1","proto":"HTTP/1.1","method":"POST","host":"h","uri":"/login","headers":{}},"duration":0.001,"size":9,"status":200,"resp_headers":{%s}}`+"\n", 1790000000+i, header)
	}
	return strings.NewReader(log.String())
}

func TestReplay_counts_by_the_headers_of_responses(t *testing.T) {
	const failed, passed = `"X-Login":["failed"],"X-Cost":["50"]`, `"X-Login":["passed"],"X-Cost":["no number"]`
	const invoked = `"Content-Type":["application/json"],"X-Amzn-Bedrock-Input-Token-Count":["40"],"X-Amzn-Bedrock-Output-Token-Count":["10"]`
	for _, test := range []struct {
		name, option string
		responses    []string
		denied       int64
		warning      string
	}{
		{"count_if, all count", "count_if header X-Login failed", slices.Repeat([]string{failed}, 20), 18, ""},
		{"count_if, none counts", "count_if header X-Login failed", slices.Repeat([]string{passed}, 20), 0, ""},
		{"a cost", "algorithm token_bucket\nburst 100\ncost {http.reverse_proxy.header.X-Cost} 1", slices.Repeat([]string{failed}, 20), 18, ""},
		{"a header that is no number", "algorithm token_bucket\nburst 100\ncost {http.reverse_proxy.header.X-Cost} 24", slices.Repeat([]string{passed}, 20), 15, "policy default: requests whose cost the log does not tell, so that the fallback of cost counts, 24, after an error at least the weight: 5"},
		{"as estimated", "algorithm token_bucket\nburst 100\nweight 50\ncost {http.reverse_proxy.header.X-Cost} 1", slices.Repeat([]string{failed}, 20), 18, ""},
		{"to less", "algorithm token_bucket\nburst 100\nweight 50\ncost {http.reverse_proxy.header.X-Cost} 1", slices.Repeat([]string{`"X-Cost":["5"]`}, 20), 9, ""},
		{"to nothing", "algorithm token_bucket\nburst 100\nweight 50\ncost {http.reverse_proxy.header.X-Cost} 1", slices.Repeat([]string{`"X-Cost":["0"]`}, 20), 0, ""},
		{"to more", "algorithm token_bucket\nburst 100\nweight 10\ncost {http.reverse_proxy.header.X-Cost} 1", slices.Repeat([]string{failed}, 20), 18, ""},
		{"to the fallback", "algorithm token_bucket\nburst 100\nweight 50\ncost {http.reverse_proxy.header.X-Cost} 10", slices.Repeat([]string{passed}, 20), 14, "policy default: requests whose cost the log does not tell, so that the fallback of cost counts, 10, after an error at least the weight: 6"},
		{"what counts alone", "algorithm token_bucket\nburst 100\nweight 50\ncost {http.reverse_proxy.header.X-Cost} 1\ncount_if header X-Login passed", slices.Repeat([]string{failed}, 20), 0, ""},
		{"the size of 9", "algorithm token_bucket\nburst 100\nweight 50\ncost response_bytes", slices.Repeat([]string{failed}, 20), 14, ""},
		{"the duration of 1 ms", "algorithm token_bucket\nburst 100\nweight 50\ncost backend_time", slices.Repeat([]string{failed}, 20), 0, ""},
		{"tokens in the header", "algorithm token_bucket\nburst 100\ncost llm 1", slices.Repeat([]string{invoked}, 20), 18, ""},
		{"tokens in the body alone", "algorithm token_bucket\nburst 100\ncost llm 24", slices.Repeat([]string{""}, 20), 15, "policy default: requests whose cost is in the response's body, which a log lacks, so that the fallback of cost counts, 24, after an error at least the weight: 5"},
		{"what went to the client", "algorithm token_bucket\nburst 100\ncost {http.response.header.x-cost} 1", slices.Repeat([]string{failed}, 20), 18, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			site := ":8080 {\n\tredis_ratelimit {client_ip} 2 10h {\n\t" + test.option + "\n\t}\n}\n"
			result := play(t, site, accesslog.ReaderOptions{Files: []string{"-"}, Stdin: answered(test.responses...)})
			assert.ErrorIf(t, result.Denied != test.denied || strings.Join(result.Warnings, "") != test.warning,
				"%d denied, want %d; warnings: %q", result.Denied, test.denied, result.Warnings)
		})
	}
}

// TestReplay_bans has a client with two requests in each window of two seconds, one of which is denied.
func TestReplay_bans(t *testing.T) {
	const failed = `"X-Login":["failed"]`
	for options, denied := range map[string]int64{
		"": 9, "ban 1h": 18, "ban 3s after 2": 9, "ban 1h\ncount_if header X-Login failed": 18, "ban 1h\ncount_if header X-Login passed": 0,
	} {
		site := ":8080 {\n\tredis_ratelimit {client_ip} 1 2s {\n\talgorithm fixed_window\n\t" + options + "\n\t}\n}\n"
		result := play(t, site, accesslog.ReaderOptions{Files: []string{"-"}, Stdin: answered(slices.Repeat([]string{failed}, 20)...)})
		assert.ErrorIf(t, result.Denied != denied, "%q: %d denied, want %d", options, result.Denied, denied)
	}
}

func TestReplay_warns_where_the_log_lacks_the_headers_of_responses(t *testing.T) {
	r := simulateCaddyfile(t, ":8080 {\n\tredis_ratelimit {client_ip} 2 10m {\n\t\tcount_if header X-Login failed\n\t}\n}\n")
	for range 3 {
		r.Play(visitOf("h"))
	}
	assert.ErrorIf(t, !r.LogOptions().Responses || !warns(r, "count_if", ": 3"), "%+v, warnings: %q", r.LogOptions(), r.Warnings())
	plain := simulateCaddyfile(t, perStatus)
	assert.ErrorIf(t, plain.LogOptions().Responses, "headers are read that no rule needs")
}

// perStatus counts failures only.
const perStatus = ":8080 {\n\tredis_ratelimit {client_ip} 2 10m {\n\t\tcount_if status 401\n\t}\n}\n"

func TestReplay_tells_what_was_given_back_and_what_only_pretends(t *testing.T) {
	e := visitOf("h")
	if d := simulateCaddyfile(t, perStatus).Play(e).Policies[0]; !d.Returned || d.DryRun {
		t.Errorf("a response that does not count: %+v", d)
	}
	r := simulateCaddyfile(t, perStatus)
	e.Status = 401
	for range 2 {
		r.Play(e)
	}
	e.Status = 200
	if d := r.Play(e).Policies[0]; !d.Denied || !d.Returned {
		t.Errorf("a request that is denied, whose response would not count: %+v", d)
	}
	e.Status = 401
	if d := simulateCaddyfile(t, perStatus).Play(e).Policies[0]; d.Returned {
		t.Errorf("a response that counts: %+v", d)
	}
	for status, returned := range map[int]bool{400: true, 499: false, 500: true, 502: false, 503: true, 504: false, 529: true} {
		e.Status = status
		d := simulateCaddyfile(t, perStatus).Play(e).Policies[0]
		assert.ErrorIf(t, !d.Returned, "a GET, which looks first, of status %d: %+v", status, d)
		e.Method = http.MethodPost
		d = simulateCaddyfile(t, perStatus).Play(e).Policies[0]
		assert.ErrorIf(t, d.Returned != returned, "status %d, of which the log shows what it shows: %+v", status, d)
		e.Method = http.MethodGet
	}
	e.Status = 401
	dry := strings.Replace(nasaSite("1 1m", "gcra"), "algorithm", "dry_run\nalgorithm", 1)
	if d := simulateCaddyfile(t, dry).Play(e).Policies[0]; !d.DryRun {
		t.Errorf("a dry run: %+v", d)
	}
}

// TestReplay_count plays a trap, which all other requests look at.
func TestReplay_count(t *testing.T) {
	r := simulateCaddyfile(t, ":8080 {\n\tredis_ratelimit {client_ip} 1 10m {\n\t\tcount path /.env\n\t\tban 1h\n\t}\n}\n")
	e := visitOf("h")
	for range 5 {
		v := r.Play(e)
		assert.ErrorIf(t, v.Outcome != limiter.OutcomeAllowed || !v.Policies[0].Looked || v.Policies[0].Weight != 0, "an honest request: %+v", v)
	}
	honest := e.URI
	e.URI = "/.env"
	v := r.Play(e)
	assert.ErrorIf(t, v.Outcome != limiter.OutcomeAllowed || v.Policies[0].Looked || v.Policies[0].Weight != 1, "the trap: %+v", v)
	e.URI = honest
	v = r.Play(e)
	assert.ErrorIf(t, v.Outcome != limiter.OutcomeDenied || !v.Policies[0].Denied, "a request after the trap: %+v", v)
}

func TestReplay_tells_where_the_numbers_of_a_policy_come_from(t *testing.T) {
	r := simulateCaddyfile(t, `:8080 {
		redis_ratelimit {
			policy a {
				limit {header.X-Limit} 5
				burst {header.X-Burst} 7
				window 1m
				algorithm leaky_bucket
				max_delay 3s
			}
			policy b {
				limit 5
				window 1m
				count_if status 401
				cost response_bytes
				algorithm gcra
			}
		}
	}`)
	a, b := r.Policies()[0], r.Policies()[1]
	if a.LimitFrom != "{http.request.header.X-Limit}" || a.BurstFrom != "{http.request.header.X-Burst}" || a.MaxDelay == nil || *a.MaxDelay != display.DurationSeconds(3*time.Second) || a.Set("count_if") != "" || a.Set("cost") != "" {
		t.Errorf("%+v", a)
	}
	assert.ErrorIf(t, b.LimitFrom != "" || b.BurstFrom != "" || b.MaxDelay != nil || b.Set("count_if") == "" || b.Set("cost") != "response_bytes", "%+v", b)
}

func TestReplay_looks_at_the_headers_of_the_policies_that_decide(t *testing.T) {
	const site = ":8080 {\n\tredis_ratelimit {\n\t\tpolicy a {\n\t\t\tkey {header.Authorization}\n\t\t\tlimit 1\n\t\t\twindow 1h\n\t\t}\n\t\tpolicy b {\n\t\t\tkey {header.X-Key}\n\t\t\tlimit 300\n\t\t\twindow 1h\n\t\t}\n\t}\n}\n"
	r := simulateOnly(t, site, "b")
	got := r.KeyHeaders()
	assert.ErrorIf(t, !slices.Equal(got, []string{"X-Key"}), "headers %q", got)
	e := visitOf("h")
	e.Header = http.Header{"X-Key": {"x"}}
	for range 2 {
		v := r.Play(e)
		assert.ErrorIf(t, v.Outcome != limiter.OutcomeAllowed || len(v.Policies) != 1, "%+v", v)
	}
}

func TestReplay_reads_logs_in_the_formats_that_the_configuration_names(t *testing.T) {
	logs := func(formats ...string) string {
		var text strings.Builder
		text.WriteString("{\n")
		for i, format := range formats {
			fmt.Fprintf(&text, "log log%d {\n\tformat %s\n}\n", i, format)
		}
		return text.String() + "}\n" + nasaSite("1 1m", "gcra")
	}
	for _, test := range []struct {
		name      string
		caddyfile string
		times     []string
		duration  string
	}{
		{"none", nasaSite("1 1m", "gcra"), nil, ""},
		{"one", logs("json {\n\ttime_format \"Jan _2 15:04\"\n\tduration_format ms\n}"), []string{"Jan _2 15:04"}, "ms"},
		{"wrapped", logs("filter {\n\twrap append {\n\t\tx y\n\t\twrap json {\n\t\t\ttime_format iso8601\n\t\t\tduration_format s\n\t\t}\n\t}\n}"), []string{"iso8601"}, "s"},
		{"different ones", logs("json {\n\ttime_format wall\n\tduration_format ms\n}", "json {\n\ttime_format iso8601\n\tduration_format s\n}"), []string{"wall", "iso8601"}, "ms s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := simulateCaddyfile(t, test.caddyfile).LogOptions()
			assert.ErrorIf(t, !slices.Equal(got.TimeLayouts, test.times) || strings.Join(got.DurationFormats, " ") != test.duration,
				"%q %q, want %q %q", got.TimeLayouts, got.DurationFormats, test.times, test.duration)
		})
	}
}

// TestReplay_ends_where_a_handler_always_answers has a limit before and behind handlers of all kinds.
func TestReplay_ends_where_a_handler_always_answers(t *testing.T) {
	for handler, passed := range map[string]bool{
		"file_server": false, "file_server {\npass_thru\n}": true, "metrics": false,
		"reverse_proxy localhost:9": false, "reverse_proxy localhost:9 {\nhandle_response {\nvars a b\n}\n}": true, "error 404": false,
	} {
		r := simulateCaddyfile(t, ":8080 {\nroute {\nredis_ratelimit same 5 1m {\nname before\n}\n"+handler+"\nredis_ratelimit same 5 1m {\nname behind\n}\n}\n}\n")
		met := 1
		if passed {
			met = 2
		}
		v := r.Play(visitOf("h"))
		assert.ErrorIf(t, len(v.Policies) != met, "%s: %d policies are met, want %d", handler, len(v.Policies), met)
	}
}

// TestReplay_leaves_out_the_policies_behind_a_refusal has two empty keys, of which the first refuses.
func TestReplay_leaves_out_the_policies_behind_a_refusal(t *testing.T) {
	policy := func(name string) string {
		return "policy " + name + " {\nkey {header.X-" + name + "}\nlimit 5\nwindow 1m\n}\n"
	}
	r := simulateCaddyfile(t, ":8080 {\nredis_ratelimit {\non_empty_key reject\n"+policy("a")+policy("b")+"}\n}\n")
	v := r.Play(visitOf("example.com:8080"))
	if v.Outcome != limiter.OutcomeRejected || len(v.Policies) != 1 || v.Policies[0].Policy != 0 || !v.Policies[0].EmptyKey {
		t.Errorf("%+v; want the decision of the first policy alone", v)
	}
}

func TestReplay_units(t *testing.T) {
	const cost, none = `"X-Cost":["50"]`, `"X-Other":["1"]`
	for _, test := range []struct {
		name, option string
		responses    []string
		want         *replay.Units
		warning      string
	}{
		{"one each", "", []string{cost, cost}, nil, ""},
		{"one each, refunded", "count_if status 401", []string{cost, cost}, nil, ""},
		{"weights", "weight 40", []string{cost, cost, cost}, &replay.Units{Offered: 120, Admitted: 80, Denied: 40}, ""},
		{"weights, refunded", "weight 40\ncount_if status 401", []string{cost, cost, cost}, &replay.Units{Offered: 120, Admitted: 120, Refunded: 120}, ""},
		{"the size", "cost response_bytes", []string{cost, cost}, &replay.Units{Offered: 2, Admitted: 2, Charged: 16}, ""},
		{"a header", "cost {http.response.header.X-Cost} 7", []string{cost, none}, &replay.Units{Offered: 2, Admitted: 2, Charged: 55}, "the fallback of cost counts, 7, after an error at least the weight: 1"},
		{"settled, more and less", "weight 30\ncost {http.response.header.X-Cost} 7", []string{cost, none, cost}, &replay.Units{Offered: 90, Admitted: 90, Charged: 40, Refunded: 23},
			"the fallback of cost counts, 7, after an error at least the weight: 1"},
		{"settled by a body", "weight 30\ncost json usage.total_tokens 40", []string{cost, cost}, &replay.Units{Offered: 60, Admitted: 60, Charged: 20},
			"policy default: requests whose cost is in the response's body, which a log lacks, so that the fallback of cost counts, 40, after an error at least the weight: 2"},
		{"settled to the size", "weight 30\ncost response_bytes", []string{cost, none}, &replay.Units{Offered: 60, Admitted: 60, Refunded: 42}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			site := ":8080 {\n\tredis_ratelimit {client_ip} 115 10h {\n\talgorithm fixed_window\n\t" + test.option + "\n\t}\n}\n"
			result := play(t, site, accesslog.ReaderOptions{Files: []string{"-"}, Stdin: answered(test.responses...)})
			if got := result.Policies[0].Units; (got == nil) != (test.want == nil) || got != nil && *got != *test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			if got := strings.Join(result.Warnings, ""); !strings.HasSuffix(got, test.warning) || (got == "") != (test.warning == "") {
				t.Errorf("warnings %q, want %q", got, test.warning)
			}
		})
	}
}

// TestReplay_units_of_what_broke_off plays a response whose status says that the client left, that the backend broke,
// or that a request was refused.
func TestReplay_units_of_what_broke_off(t *testing.T) {
	const told = `"X-Cost":["50"]`
	for _, test := range []struct {
		source, header, end string // of the log's entry
		charged, refunded   int64
	}{
		{"{http.response.header.X-Cost} 7", told, `"size":9,"status":502`, 20, 0},
		{"{http.response.header.X-Cost} 7", told, `"size":0,"status":502`, 20, 0},
		{"{http.response.header.X-Cost} 7", "", `"size":9,"status":502`, 0, 0},
		{"{http.response.header.X-Cost} 70", "", `"size":0,"status":499`, 40, 0},
		{"{http.response.header.X-Cost} 7", "", `"size":0,"status":504`, 0, 0},
		{"{http.response.header.X-Cost} 7", "", `"size":0,"status":404`, 0, 30},
		{"{http.response.header.X-Cost} 7", "", `"size":9,"status":529`, 0, 30},
		{"{http.response.header.X-Cost} 7", "", `"size":0,"status":503`, 0, 30},
		{"{http.response.header.X-Cost} 7", told, `"size":9,"status":400`, 20, 0},
		{"json usage 7", "", `"size":9,"status":500`, 0, 30},
		{"json usage 7", "", `"size":9,"status":200`, 0, 23},
		{"json usage 70", "", `"size":9,"status":502`, 40, 0},
		{"response_bytes", "", `"size":9,"status":502`, 0, 21},
		{"response_bytes", "", `"size":0,"status":499`, 0, 0},
	} {
		site := ":8080 {\n\tredis_ratelimit {client_ip} 115 10h {\n\talgorithm fixed_window\n\tweight 30\n\tcost " + test.source + "\n\t}\n}\n"
		log := assert.NoError(io.ReadAll(answered(test.header)))(t)
		log = bytes.Replace(log, []byte(`"size":9,"status":200`), []byte(test.end), 1)
		result := play(t, site, accesslog.ReaderOptions{Files: []string{"-"}, Stdin: bytes.NewReader(log)})
		want := replay.Units{Offered: 30, Admitted: 30, Charged: test.charged, Refunded: test.refunded}
		got := result.Policies[0].Units
		assert.ErrorIf(t, got == nil || *got != want, "%s, %s: %+v, want %+v", test.source, test.end, got, want)
	}
}

// Units that a policy beside denies are not taken; those that one behind denies are, and stay.
func TestReplay_units_with_another_denial(t *testing.T) {
	const weights = "policy weights {\nkey all\nlimit 1000\nwindow 1h\nweight 10\n}\n"
	const one = "policy one {\nkey one\nlimit 1\nwindow 1h\n}\n"
	for site, want := range map[string]replay.Units{
		":80 {\nredis_ratelimit {\n" + weights + one + "}\n}\n":                                        {Offered: 30, Admitted: 10, DeniedByOthers: 20},
		":80 {\nroute {\nredis_ratelimit {\n" + weights + "}\nredis_ratelimit {\n" + one + "}\n}\n}\n": {Offered: 30, Admitted: 30},
	} {
		result := play(t, site, accesslog.ReaderOptions{Files: []string{"-"}, Stdin: answered("", "", "")})
		for _, p := range result.Policies {
			assert.ErrorIf(t, p.Name == "weights" && (p.Units == nil || *p.Units != want), "%s: %+v, want %+v", site, p.Units, want)
		}
	}
}
