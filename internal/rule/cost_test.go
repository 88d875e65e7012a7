package rule

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// The responses of the cost's table.
var (
	complete = Response{Status: http.StatusOK, Begun: true, Complete: true, Ended: true, Bytes: 700}
	brokeOff = Response{Status: http.StatusOK, Begun: true, Ended: true, Bytes: 700}
	unbegun  = Response{Ended: true}
	refused  = Response{Status: http.StatusTooManyRequests, Origin: FromRefusal, Complete: true, Ended: true}
	silent   = Response{Status: http.StatusTooManyRequests, Origin: FromNoBackend, Begun: true, Complete: true, Ended: true, Bytes: 70}
	instead  = Response{Status: http.StatusTooManyRequests, Origin: AfterRefusal, Failure: true, Begun: true, Complete: true, Ended: true, Bytes: 70}
	failed   = Response{Status: http.StatusInternalServerError, Begun: true, Complete: true, Ended: true}
)

// worked is a response for which a backend worked.
func worked(response Response, took time.Duration) Response {
	response.BackendTime = took
	return response
}

// costing returns a set of one rule whose requests take a weight, and cost what a source says.
func costing(t *testing.T, weight int64, from string, fallback int64) *Set {
	t.Helper()
	r := Rule{
		Policy:  assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "budget", Limit: 1000, Window: time.Hour}))(t),
		Numbers: numbers{Weight: weight},
		Cost:    assert.NoError(ParseCost(from, fallback))(t),
		CountIf: &caddyhttp.ResponseMatcher{StatusCode: []int{2, 429}},
	}
	return NewSet([]Rule{r})
}

// TestSet_CostOf has the table of [Set.CostOf]: what each response costs by each source, where the request took 50 units
// or, with a weight of 1, one.
func TestSet_CostOf(t *testing.T) {
	for _, row := range []struct {
		what     string
		response Response
		weight   int64
		from     string
		fallback int64
		value    string // of the placeholder
		units    int64
		told     bool
		warnings int
	}{
		{"a number", complete, 50, "{p.cost}", 9, " 7 ", 7, true, 0},
		{"none", complete, 50, "{p.cost}", 9, "", 9, false, 1},
		{"below zero", complete, 50, "{p.cost}", 9, "-1", 9, false, 1},
		{"a decimal is rounded up", complete, 50, "{p.cost}", 9, "7.000000000000000000001", 8, true, 0},
		{"a decimal of a latency", complete, 50, "{p.cost}", 9, "1.5e-05", 1, true, 0},
		{"a decimal that is whole", complete, 50, "{p.cost}", 9, "7.0", 7, true, 0},
		{"a decimal below zero", complete, 50, "{p.cost}", 9, "-0.5", 9, false, 1},
		{"a decimal above the largest", complete, 50, "{p.cost}", 9, strconv.Itoa(limiter.MaxCharge) + ".1", 9, false, 1},
		{"a decimal that JSON does not write", complete, 50, "{p.cost}", 9, "7.", 9, false, 1},
		{"no number", complete, 50, "{p.cost}", 9, "infinite", 9, false, 1},
		{"the largest", complete, 50, "{p.cost}", 9, strconv.Itoa(limiter.MaxCharge), limiter.MaxCharge, true, 0},
		{"above the largest", complete, 50, "{p.cost}", 9, strconv.Itoa(limiter.MaxCharge + 1), 9, false, 1},
		{"a weight of 1 is no estimate", complete, 1, "{p.cost}", 0, "0", 1, true, 0},
		{"more than a weight of 1", complete, 1, "{p.cost}", 0, "7", 7, true, 0},

		{"a header tells it before the body", brokeOff, 50, "{p.cost}", 9, "7", 7, true, 0},
		{"the fallback is more than was taken", brokeOff, 50, "{p.cost}", 90, "", 90, false, 0},
		{"more was taken", brokeOff, 50, "{p.cost}", 9, "", 50, false, 0},
		{"a number without a header", unbegun, 50, "{p.cost}", 9, "7", 50, true, 0},

		{"bytes", complete, 50, "response_bytes", 0, "", 700, true, 0},
		{"bytes that were sent", brokeOff, 50, "response_bytes", 0, "", 700, true, 0},
		{"no bytes, no header", unbegun, 50, "response_bytes", 0, "", 50, true, 0},
		{"too many bytes", Response{Status: 200, Begun: true, Complete: true, Bytes: math.MaxInt64}, 50, "response_bytes", 0, "", limiter.MaxCharge, true, 0},

		{"time", worked(complete, 1500*time.Microsecond), 50, "backend_time", 0, "", 2, true, 0},
		{"whole milliseconds", worked(complete, 70*time.Millisecond), 50, "backend_time", 0, "", 70, true, 0},
		{"time behind a body that broke off", worked(brokeOff, time.Millisecond), 50, "backend_time", 0, "", 1, true, 0},
		{"time without a header", worked(unbegun, time.Second), 50, "backend_time", 0, "", 1000, true, 0},
		{"no time", complete, 50, "backend_time", 0, "", 0, true, 0},
		{"no time, with a weight of 1", complete, 1, "backend_time", 0, "", 1, true, 0},
		{"too much time", worked(complete, math.MaxInt64), 50, "backend_time", 0, "", 9223372036855, true, 0},
		{"time below zero", worked(complete, -time.Second), 50, "backend_time", 0, "", 0, true, 0},
		{"time of what does not count", worked(failed, time.Second), 50, "backend_time", 0, "", 0, true, 0},
		{"time before a denial further in", worked(refused, time.Second), 50, "backend_time", 0, "", 50, true, 0},

		{"another handler denied it after a backend", refused, 50, "{p.cost}", 9, "7", 50, true, 0},
		{"another handler denied it", silent, 50, "{p.cost}", 9, "7", 0, true, 0},
		{"another handler denied it, with a weight of 1", silent, 1, "{p.cost}", 9, "7", 1, true, 0},
		{"another handler denied it, bytes", silent, 50, "response_bytes", 0, "", 0, true, 0},
		{"another handler denied it, without a cost", silent, 50, "", 0, "", 50, true, 0},
		{"another answer to a denial", instead, 50, "{p.cost}", 9, "7", 7, true, 0},
		{"another answer to a denial, without a number", instead, 50, "{p.cost}", 90, "", 50, true, 0},
		{"another answer to a denial, bytes", instead, 50, "response_bytes", 0, "", 70, true, 0},
		{"it does not count", failed, 50, "{p.cost}", 9, "7", 0, true, 0},
		{"it does not count, with a weight of 1", failed, 1, "{p.cost}", 9, "7", 0, true, 0},
		{"the weight is the cost", complete, 50, "", 0, "7", 50, true, 0},
		{"no body to read", complete, 50, "json usage.total", 9, "", 9, false, 0},
	} {
		set, warnings := costing(t, row.weight, row.from, row.fallback), 0
		set.Warn = func(*Rule, string, error) { warnings++ }
		r, repl := keyRequest("192.0.2.1", map[string]string{"p.cost": row.value})
		row.response.Request = r
		units, told := set.CostOf(&set.Rules[0], repl, &row.response, row.weight)
		assert.ErrorIf(t, units != row.units || told != row.told || warnings != row.warnings,
			"%s: %d units, told %t, %d warnings; want %d, %t, %d", row.what, units, told, warnings, row.units, row.told, row.warnings)
	}
}

// bodyCost is what a request is charged, whether the response has told that, and how many warnings that gives.
type bodyCost struct {
	units    int64
	told     bool
	warnings int
}

// checkBodyCost charges a request by a body of its response, where it took 50 units, 9 is the fallback, and {p.price} has a price.
func checkBodyCost(t *testing.T, what, from, price string, response Response, body string, want bodyCost) {
	t.Helper()
	set, warnings := costing(t, 50, from, 9), 0
	set.Warn = func(*Rule, string, error) { warnings++ }
	response.Body = set.NewBody(response.Header)
	response.Body.Write([]byte(body))
	response.Body.End()
	r, repl := keyRequest("192.0.2.1", map[string]string{"p.price": price})
	response.Request = r
	units, told := set.CostOf(&set.Rules[0], repl, &response, 50)
	assert.Equal(t, bodyCost{units, told, warnings}, want, "%s", what)
}

// TestSet_CostOf_body reads costs from bodies, with a price from a placeholder.
func TestSet_CostOf_body(t *testing.T) {
	for _, row := range []struct {
		what, body, price string
		response          Response
		units             int64
		told              bool
		warnings          int
	}{
		{"a sum", `{"in":10,"out":4}`, "2.5", complete, 20, true, 0},
		{"no number", `{"in":10}`, "2.5", complete, 9, false, 1},
		{"no number in what broke off", `{"in":10`, "2.5", brokeOff, 50, false, 0},
		{"less than was taken, broken off", `{"in":10,"out":4,`, "2.5", brokeOff, 50, false, 0},
		{"no price", `{"in":10,"out":4}`, "free", complete, 9, false, 1},
		{"no price in what broke off", `{"in":10,"out":4}`, "free", brokeOff, 50, false, 1},
	} {
		row.response.Header = http.Header{"Content-Type": {"application/json"}}
		checkBodyCost(t, row.what, "json in+{p.price}*out", row.price, row.response, row.body, bodyCost{row.units, row.told, row.warnings})
	}
}

// TestSet_CostOf_tokens reads the tokens of a language model's answer, where the request took 50 units and 9 is the fallback.
func TestSet_CostOf_tokens(t *testing.T) {
	const stream = "data: {\"choices\":[]}\n\n"
	failure := complete
	failure.Failure = true
	for _, row := range []struct {
		what, contentType, body string
		response                Response
		units                   int64
		told                    bool
		warnings                int
	}{
		{"an answer", "application/json", `{"usage":{"total_tokens":60}}`, complete, 60, true, 0},
		{"an answer without usage", "application/json", `{"choices":[]}`, complete, 9, false, 1},
		{"a number below zero", "application/json", `{"usage":{"total_tokens":-60}}`, complete, 9, false, 1},
		{"a stream", "text/event-stream", stream + "data: {\"usage\":{\"total_tokens\":60}}\n\ndata: [DONE]\n\n", complete, 60, true, 0},
		{"a stream without usage", "text/event-stream", strings.Repeat(stream, 70), complete, 70, true, 0},
		{"a short stream without usage", "text/event-stream", stream, complete, 9, true, 0},
		{"a stream that broke off", "text/event-stream", strings.Repeat(stream, 70), brokeOff, 70, true, 0},
		{"a short stream that broke off", "text/event-stream", stream, brokeOff, 50, true, 0},
		{"an empty stream", "text/event-stream", "", complete, 9, false, 1},
		{"an error", "application/json", `{"error":{"message":"overloaded"}}`, failure, 0, true, 0},
		{"an error in a stream", "text/event-stream", stream, failure, 0, true, 0},
		{"an error that costs", "application/json", `{"usage":{"total_tokens":60}}`, failure, 60, true, 0},
		{"text", "text/plain", "60", complete, 9, false, 1},
	} {
		row.response.Header = http.Header{"Content-Type": {row.contentType}}
		checkBodyCost(t, row.what, "llm", "", row.response, row.body, bodyCost{row.units, row.told, row.warnings})
	}
}

// TestSet_CostOf_tokensOfHeader reads the tokens of InvokeModel's header, where the request took 50 units and 9 is the fallback.
func TestSet_CostOf_tokensOfHeader(t *testing.T) {
	failure := complete
	failure.Failure = true
	for _, row := range []struct {
		what, in, out, body string
		response            Response
		units               int64
		told                bool
		warnings            int
	}{
		{"a body that tells none", "30", "12", `{"results":[]}`, complete, 42, true, 0},
		{"a body that tells them, too", "30", "12", `{"usage":{"input_tokens":30,"output_tokens":13}}`, complete, 43, true, 0},
		{"a body with a number below zero", "30", "12", `{"usage":{"input_tokens":-30}}`, complete, 42, true, 0},
		{"no JSON", "30", "12", `{`, complete, 42, true, 0},
		{"an answer that broke off", "30", "12", `{"usage":{"input_tokens":30,`, brokeOff, 42, true, 0},
		{"a count below zero", "-30", "12", `{"results":[]}`, complete, 9, false, 1},
		{"a count below zero, broken off", "-30", "12", `{"results":[`, brokeOff, 50, false, 1},
		{"a count below zero beside a body that tells them", "-30", "12", `{"usage":{"total_tokens":7}}`, complete, 7, true, 0},
		{"a fraction", "30", "1.5", `{"results":[]}`, complete, 9, false, 1},
		{"too much", "4503599627370496", "1", `{"results":[]}`, complete, 9, false, 1},
		{"an error that costs", "30", "12", `{"message":"no"}`, failure, 42, true, 0},
		{"an error whose count is no number", "x", "12", `{"message":"no"}`, failure, 0, true, 0},
	} {
		row.response.Header = http.Header{"Content-Type": {"application/json"},
			"X-Amzn-Bedrock-Input-Token-Count": {row.in}, "X-Amzn-Bedrock-Output-Token-Count": {row.out}}
		checkBodyCost(t, row.what, "llm", "", row.response, row.body, bodyCost{row.units, row.told, row.warnings})
	}
}

// TestRule_responses reports which rules wait for a response, read its header or refund.
func TestRule_responses(t *testing.T) {
	for _, row := range []struct {
		what                   string
		weight                 int64
		from                   string
		countIf                *caddyhttp.ResponseMatcher
		awaits, reads, refunds bool
		header                 string
	}{
		{"a fixed weight", 50, "", nil, false, false, false, ""},
		{"a cost without an estimate", 1, "response_bytes", nil, true, false, false, ""},
		{"a cost with an estimate", 50, "response_bytes", nil, true, false, true, ""},
		{"a proxied header", 1, "{http.reverse_proxy.header.x-used}", nil, true, true, false, "x-used"},
		{"a header of the response", 1, "{http.response.header.x-used}", nil, true, true, false, "X-Used"},
		{"tokens, which may be in a header", 1, "llm", nil, true, true, false, ""},
		{"a status", 1, "", &caddyhttp.ResponseMatcher{StatusCode: []int{401}}, true, false, true, ""},
		{"a header counts", 1, "", &caddyhttp.ResponseMatcher{Headers: http.Header{"X-Failed": {"yes"}}}, true, true, true, ""},
	} {
		r := costing(t, row.weight, row.from, 0).Rules[0]
		r.CountIf = row.countIf
		header, _ := r.Cost.Header()
		assert.ErrorIf(t, r.AwaitsResponse() != row.awaits || r.ReadsResponseHeader() != row.reads || r.refunds() != row.refunds,
			"%s: awaits %t, reads %t, refunds %t", row.what, r.AwaitsResponse(), r.ReadsResponseHeader(), r.refunds())
		assert.ErrorIf(t, row.header != "" && header != row.header, "%s: the header %q, want %q", row.what, header, row.header)
	}
}
