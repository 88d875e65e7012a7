package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestNeverSet_warning misspells a placeholder of map, and has a key by one that nothing sets.
func TestNeverSet_warning(t *testing.T) {
	t.Parallel()
	text := caddytest.Config("", `map {header.X-Plan} {plan_limit} {plan-burst} {weight} {
		pro 900 800 2
	}
	redis_ratelimit {
		name api
		key {jwt.sub}{client_ip}
		limit {plan_limt} 500
		window 24h
		algorithm token_bucket
		burst {plan-burst} 500
		weight {weight} 1
	}
	respond {plan_limit}`)
	n := caddytest.Start(t, text)
	warnings := func() (found []string) {
		for _, l := range n.Log.Lines(func(l caddytest.LogLine) bool { return strings.HasPrefix(l.Message, "a placeholder was empty") }) {
			var fields struct{ Policy, Option, Placeholder string }
			if err := json.Unmarshal([]byte(l.Text), &fields); err != nil {
				t.Fatal(err)
			}
			found = append(found, fmt.Sprint(l.Level, " ", fields.Policy, " ", fields.Option, " ", fields.Placeholder))
			if strings.Contains(l.Text, "secret-plan") {
				t.Errorf("the log has a value of a client: %s", l.Text)
			}
		}
		slices.Sort(found)
		return found
	}
	send := func(times int, plan string) {
		t.Helper()
		for range times {
			n.Get(t, "/", "X-Plan: "+plan)
		}
	}
	send(1, "pro")
	if send(98, "secret-plan"); len(warnings()) > 0 {
		t.Fatalf("got %q before 100 requests", warnings())
	}
	want := []string{"warn api key {jwt.sub}", "warn api limit {plan_limt}"}
	if send(50, "secret-plan"); !slices.Equal(warnings(), want) {
		t.Errorf("got %q, want %q", warnings(), want)
	}
	n.Reload(t, strings.Replace(text, "respond", "header X-New yes\nrespond", 1))
	if send(99, "pro"); !slices.Equal(warnings(), want) {
		t.Errorf("got %q after a reload, want %q", warnings(), want)
	}
	if send(1, "pro"); len(warnings()) != 4 {
		t.Errorf("got %q, want each of %q once more", warnings(), want)
	}
}
