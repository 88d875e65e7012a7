package redisratelimit

import (
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/dunglas/httpsfv"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/answer"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// answerAs is a handler that answers with the status that the request's query names.
func answerAs(w http.ResponseWriter, r *http.Request) error {
	status, err := strconv.Atoi(r.URL.RawQuery)
	if err != nil {
		return err
	}
	w.WriteHeader(status)
	return nil
}

// counting is a handler of one policy that counts the status 401, and shows all headers.
func counting(name, settings string) string {
	return `{"policies":[{"name":"` + name + `","key":"x",` + settings + `,"count_if":{"status_code":[401]}}],"headers":["x_ratelimit","ietf"]}`
}

// checkReset checks how long it is until the share is as good as new, by both kinds of headers.
func checkReset(t *testing.T, header http.Header, least, most time.Duration) {
	t.Helper()
	reset, err := strconv.ParseInt(header.Get(answer.Reset), 10, 64)
	if left := time.Until(time.Unix(reset, 0)); err != nil || left < least-time.Minute || left > most+time.Second {
		t.Errorf("%s is in %v, want it from %v to %v", answer.Reset, left, least, most)
	}
	list, err := httpsfv.UnmarshalList(header.Values(answer.Quota))
	if err != nil || len(list) != 1 {
		t.Fatalf("%s is %q, error %v; want one item", answer.Quota, header.Values(answer.Quota), err)
	}
	item, _ := list[0].(httpsfv.Item)
	value, _ := item.Params.Get("t")
	if seconds, _ := value.(int64); time.Duration(seconds)*time.Second < least-time.Minute || time.Duration(seconds)*time.Second > most {
		t.Errorf("%s is %q, want t from %v to %v", answer.Quota, header.Values(answer.Quota), least, most)
	}
}

// TestGiving_back_resets_the_share_that_is_shown has nothing used, and then one request that counts.
func TestGiving_back_resets_the_share_that_is_shown(t *testing.T) {
	const hour = time.Hour
	for algorithm, used := range map[string][2]time.Duration{
		"sliding_window_counter": {20 * hour, 40 * hour}, "sliding_window_log": {20 * hour, 20 * hour},
		"fixed_window": {0, 20 * hour}, // whose end is not far from now at some hours of the day
		"token_bucket": {hour, hour}, "leaky_bucket": {hour, hour}, "gcra": {hour, hour},
	} {
		t.Run(algorithm, func(t *testing.T) {
			server := serve(t, answerAs, newHandler(t, counting("p", `"limit":20,"window":"20h","algorithm":"`+algorithm+`"`)))
			header := fetch(t, server.URL+"?404").Header
			checkShare(t, header, "20", "20")
			checkReset(t, header, 0, 0)
			fetch(t, server.URL+"?401")
			header = fetch(t, server.URL+"?404").Header
			checkShare(t, header, "20", "19")
			checkReset(t, header, used[0], used[1])
		})
	}
}

// TestGiving_back_shows_the_policy_that_binds_then has one be tighter only until it gives back.
func TestGiving_back_shows_the_policy_that_binds_then(t *testing.T) {
	for name, handlers := range map[string][]string{
		"one handler": {`{"policies":[
			{"name":"logins","key":"x","limit":1,"window":"24h","count_if":{"status_code":[401]}},
			{"name":"all","key":"x","limit":100,"window":"24h","weight":90}]}`},
		"it is further in":  {policyJSON("all", `100,"key":"x","weight":90`), counting("logins", `"limit":1,"window":"24h"`)},
		"it is further out": {counting("logins", `"limit":1,"window":"24h"`), policyJSON("all", `100,"key":"x","weight":90`)},
	} {
		t.Run(name, func(t *testing.T) {
			var all []*Handler
			for _, text := range handlers {
				all = append(all, newHandler(t, text))
			}
			checkShare(t, fetch(t, serve(t, answerAs, all...).URL+"?200").Header, "100", "10")
		})
	}
}

// TestGiving_back_of_a_dry_run_is_not_shown has a handler that only pretends count in the share that
// another one enforces.
func TestGiving_back_of_a_dry_run_is_not_shown(t *testing.T) {
	pretending := `{"policies":[{"name":"p","key":"x","limit":10,"window":"24h","dry_run":true,"count_if":{"status_code":[401]}}]}`
	ctx := lastingContext(t, "")
	server := serve(t, answerAs, loadHandler(t, ctx, policyJSON("p", `10,"key":"x"`)), loadHandler(t, ctx, pretending))
	for remaining := 9; remaining >= 8; remaining-- {
		checkShare(t, fetch(t, server.URL+"?200").Header, "10", strconv.Itoa(remaining))
	}
}

// TestCount_if_counts_by_the_response has an upstream answer 499, which servers log of a client that left, and handlers
// break the way that Caddy answers with 500.
func TestCount_if_counts_by_the_response(t *testing.T) {
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		inside caddyhttp.HandlerFunc
		counts bool
	}{
		"upstream": {writing(499, ""), false},
		"plain":    {func(http.ResponseWriter, *http.Request) error { return broken }, true},
		"unstated": {func(http.ResponseWriter, *http.Request) error { return caddyhttp.HandlerError{Err: broken} }, true},
	} {
		server := serve(t, test.inside, newHandler(t, counting("counts-"+name, `"limit":5,"window":"24h"`)))
		for used := range 3 {
			left := 5
			if test.counts {
				left = 4 - used
			}
			checkShare(t, fetch(t, server.URL).Header, "5", strconv.Itoa(left))
		}
	}
}

// TestCount_if_makes_a_policy_refund_in_all_handlers has handlers before and after the one that refunds.
func TestCount_if_makes_a_policy_refund_in_all_handlers(t *testing.T) {
	ctx := lastingContext(t, "")
	const numbers = `"limit":5,"window":"24h"`
	without := `{"policies":[{"name":"p","key":"x",` + numbers + `}]}`
	handlers := []*Handler{loadHandler(t, ctx, without), loadHandler(t, ctx, counting("p", numbers)), loadHandler(t, ctx, without)}
	one := handlers[0].app.registered["p"]
	for i, h := range handlers {
		for _, r := range h.limiter.Rules.Rules {
			assert.ErrorIf(t, r.Policy != one.Policy || r.Numbers.Variants != one.Variants || !r.Policy.Settings.Refunds,
				"handler %d has a policy of its own", i)
		}
	}
}
